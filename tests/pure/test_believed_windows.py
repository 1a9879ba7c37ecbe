"""Of what is told of a model's window, the first that can be one counts."""

import pytest

from service.planning.policy import believed


@pytest.mark.parametrize(
    ("told", "window"),
    [
        ([], None),
        ([8192, 4096], 8192),
        ([0, 4096], 4096),
        ([-1, 2047, 2048], 2048),
        ([10**12, 131_072], 131_072),
        ([0, 0], None),
    ],
)
def test_the_first_size_that_a_window_can_have_is_believed(told: list[int], window: int | None) -> None:
    assert believed(told) == window
