"""Budgets in proportion to the window: positive, bounded, and what has to fit together does."""

import pytest

from service.planning.policy import PROMPT_TOKENS, Policy, apply_at, find_plausible_window


def test_a_summary_has_8_percent_of_what_it_covers_up_to_half_of_a_request() -> None:
    policy = Policy.sized(16_384)
    assert policy.summary_room(10_000, 1000) == policy.summary_tokens == 4688
    assert policy.summary_room(70_000, 1000) == 5600
    assert policy.summary_room(1_000_000, 1000) == policy.request_tokens


def test_beside_a_large_tail_the_room_to_grow_goes_before_the_summary() -> None:
    policy = Policy.sized(16_384)
    assert policy.summary_room(10_000, policy.request_tokens) == policy.summary_tokens
    assert policy.summary_room(10_000, 8000) == policy.apply_at - policy.code_tokens - 8000
    assert policy.summary_room(10_000, 50_000) == policy.request_tokens // 4


WINDOWS = [*range(2048, 40_000, 37), 65_536, 131_072, 262_144, 1_048_576]
SETTINGS = [
    {"apply_share": apply, "summary_share": share, "keep_messages": keep}
    for apply in (0.3, 0.5, 0.95)
    for share, keep in ((0.05, 2), (0.2, 10), (0.4, 200))
]


def together(policy: Policy) -> int:
    """What a step, the tail and a summary take of a request."""
    return policy.step_by_code(is_urgent=False) + policy.keep_tokens + policy.summary_tokens


def check(policy: Policy, window: int) -> None:
    """What holds of all budgets."""
    assert all(getattr(policy, name) > 0 for name in Policy.__dataclass_fields__ if name != "overhead")
    assert policy.prepare_at < policy.apply_at < window
    assert policy.request_tokens < policy.apply_at
    assert policy.state_tokens <= policy.summary_tokens * 3 // 4
    assert policy.entry_tokens <= min(1000, policy.summary_tokens)


@pytest.mark.parametrize("summariser", [2048, 4096, 8192, 32_768, 131_072])
def test_budgets_are_positive_and_bounded_and_fit_under_the_threshold_together(summariser: int) -> None:
    for window in WINDOWS:
        policy = Policy.sized(window, summariser)
        check(policy, window)
        assert together(policy) <= policy.apply_at, window


@pytest.mark.parametrize("chosen", SETTINGS, ids=str)
def test_they_fit_whatever_is_set(chosen: dict[str, float]) -> None:
    for window in (*WINDOWS[::20], *WINDOWS[-4:]):
        policy = Policy.sized(window, **chosen)  # type: ignore[arg-type]
        check(policy, window)
        assert policy.step_by_code(is_urgent=False) >= min(window // 20, 1000), window
        assert together(policy) <= policy.apply_at == apply_at(window, chosen["apply_share"]), window


@pytest.mark.parametrize("share", [0.02, 0.2, 0.4])
def test_step_tail_and_summary_fit_under_the_threshold_beside_the_tools(share: float) -> None:
    """Open WebUI's own tools take 7,000 tokens of each request: a fifth of a window of 32k."""
    for window in (window for window in WINDOWS if window * (1 - share * 1.4) > 2048):
        overhead = int(window * share)
        policy = Policy.sized(window, overhead=overhead)
        assert overhead + together(policy) <= policy.apply_at == Policy.sized(window).apply_at, window
        assert policy.prepare_at == window // 2


@pytest.mark.parametrize("share", [0.6, 0.75, 0.85, 0.9])
def test_where_tools_take_nearly_all_they_fit_into_what_is_left(share: float) -> None:
    """The page of Open WebUI 0.12 takes 6,415 to 7,000 tokens of a window of 8,192."""
    for window in (8192, 12_288, 16_384, 32_768):
        overhead = int(window * share)
        policy = Policy.sized(window, overhead=overhead)
        assert overhead + together(policy) <= policy.apply_at < window
        assert together(policy) <= (window - overhead) * 3 // 4, "a part is for the answer"


@pytest.mark.parametrize("summariser", [4096, 8192, 32_768])
def test_what_a_call_reads_again_is_a_quarter_of_what_it_reads_new(summariser: int) -> None:
    for window in WINDOWS:
        policy = Policy.sized(window, summariser)
        again = policy.state_tokens + policy.entry_tokens + PROMPT_TOKENS
        assert policy.step_tokens >= 4 * again, window


@pytest.mark.parametrize(
    ("told", "window"),
    [([], None), ([8192, 4096], 8192), ([0, 4096], 4096), ([-1, 2047, 2048], 2048), ([10**12, 131_072], 131_072)],
)
def test_of_what_is_told_of_a_window_the_first_that_can_be_one_is_believed(told: list[int], window: int | None) -> None:
    assert find_plausible_window(told) == window
