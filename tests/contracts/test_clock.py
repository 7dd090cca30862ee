"""What a clock does: one suite for the real one and for the one that tests stop."""

import asyncio

import pytest

from orchestrator.clock import MOMENT_S, Clock, SystemClock, to_moment
from orchestrator.testing import ManualClock


@pytest.fixture(params=[SystemClock, ManualClock])
def clock(request: pytest.FixtureRequest) -> Clock:
    """Each clock in turn."""
    made: Clock = request.param()
    return made


async def test_sleep_lasts_as_long_as_it_says(clock: Clock) -> None:
    """After a sleep at least so much time has passed, on both of the clock's hands."""
    now, monotonic = clock.now(), clock.monotonic()
    sleeping = asyncio.ensure_future(clock.sleep(0.05))
    await asyncio.sleep(0)
    assert not sleeping.done()
    if isinstance(clock, ManualClock):
        await clock.advance(0.05)
    await sleeping
    assert clock.monotonic() - monotonic >= 0.049
    assert clock.now() - now >= 0.04


async def test_no_sleep_at_all_lets_others_act(clock: Clock) -> None:
    """A sleep of nothing ends by itself."""
    await asyncio.wait_for(clock.sleep(0), timeout=20)


def test_ids_differ_and_have_their_length(clock: Clock) -> None:
    """Ids are of the asked length, of small letters and digits, and no two are the same."""
    ids = {clock.new_id() for _ in range(200)} | {clock.new_id(12)}
    assert len(ids) == 201
    assert {len(one) for one in ids} == {8, 12}
    assert all(one.isascii() and one.isalnum() and one == one.lower() for one in ids)


def test_jitter_stays_near(clock: Clock) -> None:
    """Jitter moves a time by a tenth at most."""
    assert all(9.0 <= clock.jitter(10.0) <= 11.0 for _ in range(100))


async def test_rests_end_in_time(clock: Clock) -> None:
    """A rest lasts as long as it says, give or take half of what lies between two moments."""
    monotonic = clock.monotonic()
    resting = asyncio.ensure_future(clock.rest(1.0))
    await asyncio.sleep(0)
    if isinstance(clock, ManualClock):
        await clock.advance(1.5)
    await asyncio.wait_for(resting, timeout=20)
    assert clock.monotonic() - monotonic >= 0.49


def test_those_that_rest_wake_together() -> None:
    """Whoever began when and wants how long: it wakes at one of the moments that all share."""
    for began in (100.0, 100.2, 100.49, 100.51, 103.99):
        for seconds in (1.0, 1.3, 2.0, 5.0, 60.0):
            waits = to_moment(seconds, began)
            assert abs(waits - seconds) <= MOMENT_S / 2
            assert (began + waits) % MOMENT_S == pytest.approx(0.0, abs=1e-6)


def test_a_short_rest_is_a_sleep() -> None:
    """What is shorter than the moments are apart is not made longer, nor nothing."""
    assert to_moment(0.2, 100.9) == 0.2


async def test_manual_clock_wakes_in_order() -> None:
    """Of several sleepers each wakes at its own moment, and one may sleep again on the way."""
    clock, woken = ManualClock(), []

    async def sleeper(name: str, *naps: float) -> None:
        for nap in naps:
            await clock.sleep(nap)
            woken.append((name, clock.monotonic()))

    tasks = [asyncio.ensure_future(sleeper("a", 3, 3)), asyncio.ensure_future(sleeper("b", 4))]
    await asyncio.sleep(0)
    await clock.advance(10)
    assert woken == [("a", 3), ("b", 4), ("a", 6)]
    await asyncio.gather(*tasks)
