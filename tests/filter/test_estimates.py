"""What the filter estimates without a tokenizer, beside what the service counts."""

import pytest

from benchmarks.estimates import kinds, ratio
from filter_stub.precis_filter import chain, tokens_of
from service.transcript import native_tokens
from tests.builders import called, returned, said
from tests.filter.chat import filler

TEXTS = kinds(40)


@pytest.mark.parametrize("kind", sorted(TEXTS))
def test_real_texts_are_estimated_within_15_percent(kind: str) -> None:
    assert ratio(TEXTS[kind]) == pytest.approx(1, abs=0.15)


def test_pictures_in_results_of_tools_count_as_pictures_whatever_their_addresses() -> None:
    """The service may not have that answer, as when it was stopped."""
    pictures = "data:image/png;base64," + "iVBORw0KGgo" * 90_000, "/api/v1/files/1/content"
    result = returned("c1", filler("result", 400), *pictures)
    answer = {"id": "a1", "role": "assistant", "output": [called("c1", "look", "{}"), result, said("Two cats.")]}
    (node,) = chain([answer])
    assert tokens_of(node.message) == pytest.approx(native_tokens(answer), rel=0.1)


# Pictures of a saved chat, whose addresses are not uploaded
