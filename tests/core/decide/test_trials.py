"""What two crash counts say of each other: Fisher's test against values from the literature."""

import pytest

from orchestrator.core.decide.trials import crash_rate, fisher, judged


@pytest.mark.parametrize(
    ("first", "second", "p"),
    [
        ((3, 4), (1, 4), 0.4857142857),
        ((0, 10), (10, 10), 2 / 184_756),
        ((1, 10), (11, 14), 0.0027594562),
        ((5, 10), (5, 10), 1.0),
        ((0, 0), (3, 3), 1.0),
    ],
)
def test_fisher(first: tuple[int, int], second: tuple[int, int], p: float) -> None:
    """The two-sided p is the published one, whichever side is named first."""
    one, other = crash_rate(*first), crash_rate(*second)
    assert fisher(one, other) == pytest.approx(p, rel=1e-5)
    assert fisher(other, one) == pytest.approx(p, rel=1e-5)


def test_sentence_claims_no_more_than_the_counts() -> None:
    """A difference is claimed below p = 0.05 only, and which way it goes is said."""
    assert "less often" in judged(crash_rate(10, 10), crash_rate(0, 10))
    assert "more often" in judged(crash_rate(0, 10), crash_rate(10, 10))
    assert "show no difference" in judged(crash_rate(2, 4), crash_rate(1, 4))
    assert "nothing can be said" in judged(crash_rate(0, 0), crash_rate(1, 4))
