"""Relaunches over the whole fleet come a few at a time."""

from orchestrator.core.decide.storm import AT_ONCE, WITHIN_S, turn_at


def test_first_few_begin_at_once_and_the_rest_in_their_turn() -> None:
    """Of twenty that fail together five begin now, and five more each minute."""
    begun: list[float] = []
    now = 1000.0
    for _ in range(20):
        now = max(now, turn_at(begun, now))
        begun.append(now)
    assert begun[:AT_ONCE] == [1000.0] * AT_ONCE
    assert begun[AT_ONCE : 2 * AT_ONCE] == [1000.0 + WITHIN_S] * AT_ONCE
    assert begun[-1] == 1000.0 + 3 * WITHIN_S


def test_clock_that_jumped_back_keeps_nobody_waiting() -> None:
    """Turns that lie in the future are those of a clock that was wrong."""
    assert turn_at([5000.0] * AT_ONCE, 1000.0) == 1000.0
