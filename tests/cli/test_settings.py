"""Settings of single models, and what is said of those that are wrong."""

import pytest

from service.errors import ConfigurationError
from service.planning.policy import Policy
from service.settings import load, redact_settings

MODELS = (
    '{"small": {"window": 8192, "apply_at": 0.5, "keep_messages": 4, "summary_share": 0.3},'
    ' "known": {"summariser_model": "tiny"}}'
)


def test_budgets_are_set_for_all_models_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"APPLY_AT": "0.5", "KEEP_MESSAGES": "4", "SUMMARY_SHARE": "0.1"}.items():
        monkeypatch.setenv(f"PRECIS_{name}", value)

    policy = load().policy("any", 16_384, overhead=100)

    assert policy == Policy.sized(16_384, overhead=100, apply_share=0.5, keep_messages=4, summary_share=0.1)


def test_a_model_has_budgets_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRECIS_MODELS", MODELS)
    settings = load(keep_messages=20)

    small = {"apply_share": 0.5, "keep_messages": 4, "summary_share": 0.3}
    assert settings.policy("small", None) == Policy.sized(8192, **small)  # type: ignore[arg-type]
    assert settings.policy("small", 4096).window_tokens == 4096, "what Open WebUI knows counts"
    assert settings.policy("known", 8192) == Policy.sized(8192, keep_messages=20)
    assert settings.policy("other", 8192) == Policy.sized(8192, keep_messages=20)
    assert (settings.apply_share("small"), settings.apply_share("other")) == (0.5, 0.763)


def test_models_are_shown_as_they_are_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRECIS_MODELS", MODELS)
    again = redact_settings(load())["models"]

    monkeypatch.setenv("PRECIS_MODELS", again)
    assert redact_settings(load())["models"] == again
    assert '"window": 8192' in again


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("MODELS", '{"a": {"windw": 8192}}', "PRECIS_MODELS: a → windw: "),
        ("MODELS", '{"a": {"apply_at": 2}}', "PRECIS_MODELS: a → apply_at: "),
        ("MODELS", '{"a"', "PRECIS_MODELS: Invalid JSON"),
        ("APPLY_AT", "0.96", "PRECIS_APPLY_AT: "),
        ("SUMMARY_SHARE", "0.5", "PRECIS_SUMMARY_SHARE: "),
    ],
)
def test_what_is_wrong_is_named(monkeypatch: pytest.MonkeyPatch, name: str, value: str, told: str) -> None:
    monkeypatch.setenv(f"PRECIS_{name}", value)

    with pytest.raises(ConfigurationError) as refused:
        load()

    assert told in str(refused.value)
