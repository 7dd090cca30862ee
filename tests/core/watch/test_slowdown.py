"""A run is called slower where it is so for good, and not where it is only uneven."""

import random
from collections.abc import Callable, Iterable

import pytest

from orchestrator.core.watch.slowdown import Fall, Slower

Times = list[float]


def fall_of(times: Iterable[float], *, lengths: Times | None = None) -> Fall | None:
    """The first fall that steps of these seconds tell; `lengths` are tokens that they tell."""
    slower, found = Slower(), None
    for number, each_s in enumerate(times):
        told = lengths[number] / each_s if lengths else None
        slower.step(each_s, each_s, told, None)
        found = found or slower.fall
    return found


def noisy(rng: random.Random, count: int, base_s: float = 1.0) -> Times:
    """Steps of one length."""
    return [base_s * rng.lognormvariate(0.0, 0.04) for _ in range(count)]


def buckets(rng: random.Random, count: int) -> Times:
    """Batches by length in random order: the longest takes six times the shortest."""
    return [rng.choice((0.5, 1.0, 1.0, 3.0)) * one for one in noisy(rng, count)]


def stalls(rng: random.Random, count: int) -> Times:
    """A loader that hiccups at one step of eight."""
    return [one * (8.0 if rng.random() < 0.12 else 1.0) for one in noisy(rng, count)]


def evaluations(rng: random.Random, count: int) -> Times:
    """Each tenth step has an evaluation in it."""
    return [one * (20.0 if n % 10 == 9 else 1.0) for n, one in enumerate(noisy(rng, count))]


def spells(rng: random.Random, count: int) -> Times:
    """A neighbour takes half of the machine for half a minute, again and again."""
    return [one * (2.5 if n % 200 > 187 else 1.0) for n, one in enumerate(noisy(rng, count))]


def growth(rng: random.Random, count: int) -> Times:
    """Sequences that grow all the while, to five times their length."""
    return [one * (1.0 + 4.0 * n / count) for n, one in enumerate(noisy(rng, count))]


def warm_up(rng: random.Random, count: int) -> Times:
    """Slow at first."""
    return [one * max(1.0, 4.0 - n / 60) for n, one in enumerate(noisy(rng, count))]


UNEVEN = (noisy, buckets, stalls, evaluations, spells, growth, warm_up)


@pytest.mark.parametrize("make", UNEVEN)
@pytest.mark.parametrize("seed", range(3))
def test_an_uneven_run_is_not_slower(
    make: Callable[[random.Random, int], Times], seed: int
) -> None:
    """Whatever its reason, it is the run's own pace."""
    assert fall_of(make(random.Random(seed), 2500)) is None


@pytest.mark.parametrize("make", [noisy, buckets, stalls, evaluations, spells, warm_up])
@pytest.mark.parametrize("factor", [1.7, 3.0])
def test_all_steps_slower_from_one_on_is_a_fall(
    make: Callable[[random.Random, int], Times], factor: float
) -> None:
    """It is told whatever else the run does, and by about how much."""
    times = make(random.Random(7), 3000)
    found = fall_of([*times[:2200], *(one * factor for one in times[2200:])])
    assert found is not None
    assert found.unit == "a step"
    assert found.factor == pytest.approx(factor, rel=0.35)


def test_steps_that_compile_anew_for_ever_are_a_fall() -> None:
    """The quick steps are as quick as before: it is what all of them take together."""
    rng = random.Random(3)
    times = noisy(rng, 3000)
    storm = [one * (12.0 if rng.random() < 0.4 else 1.0) for one in times[1800:]]
    assert fall_of([*times[:1800], *storm]) is not None


def test_a_pace_that_comes_back_is_none() -> None:
    """A minute of steps three times as long, and then as before."""
    times = noisy(random.Random(4), 1000)
    times[500:518] = [3.0 * one for one in times[500:518]]
    assert fall_of(times) is None


def test_tokens_tell_the_pace_of_sequences_that_grow_by_jumps() -> None:
    """Steps of three times the length may take three times as long; nine times is a fall."""
    rng = random.Random(5)
    lengths = [1000.0] * 600 + [3000.0] * 600
    times = [length / 1000 * one for length, one in zip(lengths, noisy(rng, 1200), strict=True)]
    assert fall_of(times, lengths=lengths) is None
    assert fall_of(times) is not None
    fallen = [one * (3.0 if number >= 600 else 1.0) for number, one in enumerate(times)]
    found = fall_of(fallen, lengths=lengths)
    assert found is not None
    assert found.unit == "a token"
    assert found.factor == pytest.approx(3.0, rel=0.1)


def test_tokens_that_are_told_at_every_tenth_step_still_decide() -> None:
    """Sequences twice as long take twice as long: no token became slower."""
    rng, slower = random.Random(5), Slower()
    for number, each_s in enumerate([*noisy(rng, 700, 0.5), *noisy(rng, 700, 1.0)]):
        slower.step(each_s, each_s, 4096.0 if number % 10 == 9 else None, None)
        assert number < 10 or slower.fall is None
