"""Settings of single models, and what is said of those that are wrong."""

import pytest

from service.errors import ConfigurationError
from service.planning.policy import Policy
from service.settings import load, redact_settings

MODELS = (
    '{"small": {"window": 8192, "apply_at": 0.5, "keep_messages": 4, "summary_share": 0.3},'
    ' "known": {"summariser_model": "tiny"}}'
)


def test_a_model_has_budgets_of_its_own_and_the_others_those_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRECIS_MODELS", MODELS)
    settings = load(apply_at=0.6, keep_messages=20, summary_share=0.1)

    small = Policy.sized(8192, apply_share=0.5, keep_messages=4, summary_share=0.3)
    usual = Policy.sized(8192, overhead=100, apply_share=0.6, keep_messages=20, summary_share=0.1)
    assert settings.policy("small", None) == small
    assert settings.policy("small", 4096).apply_at == 4096 // 2, "what Open WebUI knows counts"
    assert settings.policy("known", 8192, overhead=100) == usual
    assert settings.policy("other", 8192, overhead=100) == usual

    shown = redact_settings(settings)["models"]
    assert '"window": 8192' in shown
    monkeypatch.setenv("PRECIS_MODELS", shown)
    assert load().models == settings.models


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
