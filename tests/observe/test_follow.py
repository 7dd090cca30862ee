"""An attempt followed over a real link: every byte once, whole metric lines, how it ended."""

import asyncio
import os
import signal

import pytest

from orchestrator.clock import SystemClock
from orchestrator.core.events import Event, Exited, LogBytes, LogGap, MetricLines, RelayGone
from orchestrator.observe.follow import Follower, _Lines, follow
from orchestrator.observe.gpus import gpus_sampled, sampled
from tests.observe.conftest import AsyncLaunch, Launcher

WITHIN_S = 40.0

TALK = """
import os, time
metrics = open(os.environ["ORCH_RUN_DIR"] + "/metrics.jsonl", "ab", buffering=0)
for step in range(3):
    print("step", step)
    metrics.write(b'{"step": %d}\\n{"to' % step)
    time.sleep(0.05)
    metrics.write(b'rn": 1}\\n')
print("last words", end="")
raise SystemExit(7)
"""


async def followed(begun: AsyncLaunch, log_offset: int = 0, metrics_offset: int = 0) -> Follower:
    """Follow the run's attempt from here on."""
    return await follow(
        begun.link,
        begun.run,
        begun.attempt_dir,
        clock=SystemClock(),
        log_offset=log_offset,
        metrics_offset=metrics_offset,
    )


async def to_the_end(follower: Follower) -> list[Event]:
    """All events, each said to be stored."""
    events = []
    async with asyncio.timeout(WITHIN_S):
        async for event in follower:
            events.append(event)
            if isinstance(event, LogBytes | LogGap | MetricLines):
                await follower.stored(event)
    return events


def output(events: list[Event]) -> bytes:
    """All bytes of the log, each at the offset where the last one ended."""
    at = None
    found = b""
    for event in events:
        if isinstance(event, LogBytes):
            assert at in {None, event.offset}
            at, found = event.end, found + event.data
    return found


async def test_output_metrics_and_exit_come_whole_and_in_order(program: Launcher) -> None:
    """The exit record is the last event, after every byte; metric lines are never torn."""
    begun = program(TALK)
    await begun.start()
    events = await to_the_end(await followed(begun))
    assert output(events) == b"step 0\r\nstep 1\r\nstep 2\r\nlast words"
    metrics = [event for event in events if isinstance(event, MetricLines)]
    lines = [line for event in metrics for line in event.lines]
    assert lines == [line for step in range(3) for line in (b'{"step": %d}' % step, b'{"torn": 1}')]
    last = events[-1]
    assert isinstance(last, Exited)
    assert (last.record.code, last.record.signal) == (7, None)
    assert last.record.log_bytes == len(output(events))
    assert last.at == last.record.ended_at


async def test_following_goes_on_where_it_was_stored(program: Launcher) -> None:
    """A daemon that was restarted gets the rest, and no byte twice."""
    begun = program(TALK)
    await begun.start()
    whole = await to_the_end(await followed(begun))
    lines = next(event for event in whole if isinstance(event, MetricLines))
    rest = await to_the_end(await followed(begun, log_offset=5, metrics_offset=lines.end))
    assert output(rest) == output(whole)[5:]
    again = [event for event in rest if isinstance(event, MetricLines)]
    assert not again or again[0].offset == lines.end
    assert isinstance(rest[-1], Exited)


async def test_no_byte_is_lost_when_the_probe_dies(program: Launcher) -> None:
    """The link starts another probe, and the events go on as if nothing had been."""
    begun = program(
        "import time\nfor n in range(200):\n    print('line', n)\n    time.sleep(0.01)\n"
    )
    await begun.start()
    follower = await followed(begun)
    events: list[Event] = []
    async with asyncio.timeout(WITHIN_S):
        async for event in follower:
            events.append(event)
            if isinstance(event, LogBytes):
                await follower.stored(event)
            if len(events) == 3:
                assert begun.link.hello is not None
                os.kill(begun.link.hello["pid"], signal.SIGKILL)
    assert output(events) == b"".join(b"line %d\r\n" % n for n in range(200))
    assert isinstance(events[-1], Exited)


async def test_a_signal_is_told_exactly(program: Launcher) -> None:
    """Killed by SIGKILL is no exit code 137."""
    begun = program("import os\nprint('x')\nos.kill(os.getpid(), 9)\n")
    await begun.start()
    last = (await to_the_end(await followed(begun)))[-1]
    assert isinstance(last, Exited)
    assert (last.record.code, last.record.signal) == (None, 9)


PLANTS = """
import os, pathlib, sys, time
folder = pathlib.Path(os.environ["ORCH_RUN_DIR"]) / "attempt-1"
print("begun")
time.sleep(0.5)
for file in sys.argv[1:]:
    new = folder / "planted"
    new.write_text(CONTENTS)
    new.rename(folder / file)
print("planted")
time.sleep(1.5)
"""
DAMAGED = (
    '"{}"',
    """'{"code": "x", "started_at": [], "relay_pid": "x", "relay_start": {}, "start": "y"}'""",
    """'{"relay_pid": 1e999, "relay_start": 0, "detached": {}}'""",
    """'{"relay_pid": 99999999999999999999, "relay_start": -1, "pid": -1, "start": null}'""",
    '"[" * 100_000 + "]" * 100_000',
    '"9" * 9_000_000',
)


@pytest.mark.parametrize("contents", DAMAGED, ids=lambda text: text[:40])
@pytest.mark.parametrize("file", ["exit.json", "attempt.json"])
async def test_records_that_the_program_overwrote_harm_nobody_else(
    program: Launcher, file: str, contents: str
) -> None:
    """The attempt comes to an end, by its record or without one, and the probe lives through it."""
    text = PLANTS.replace("CONTENTS", contents).replace("sys.argv[1:]", repr([file]))
    begun = program(text)
    await begun.start()
    assert begun.link.hello is not None
    probe = begun.link.hello["pid"]
    events = await to_the_end(await followed(begun))
    assert isinstance(events[-1], Exited | RelayGone)
    assert output(events).startswith(b"begun")
    assert begun.link.hello["pid"] == probe
    assert begun.link.problem is None


async def test_gpus_are_events_too(program: Launcher) -> None:
    """Rounds of samples come one after the other, each with its time."""
    link = program("").link
    async with asyncio.timeout(WITHIN_S):
        rounds = sampled(link, interval_s=0.05)
        first, second = await anext(rounds), await anext(rounds)
        await rounds.aclose()
    assert type(first) is type(second)
    assert min(first.at, second.at) > 0


def test_what_a_newer_probe_says_of_a_gpu_is_kept() -> None:
    """Keys that this daemon does not know go to `extra`."""
    event = gpus_sampled(
        {
            "t": 5.0,
            "source": "nvml",
            "error": None,
            "samples": [{"index": 1, "power_w": 9.5, "processes": [{"pid": 4}], "fan": 3}],
        }
    )
    assert event.samples[0].extra == {"fan": 3}
    assert event.samples[0].processes == ({"pid": 4},)


def test_a_metrics_file_that_begins_anew_begins_with_a_whole_line() -> None:
    """The torn end of the old file is not put before the new one."""
    lines = _Lines(0)
    assert lines.take(0, b'{"step": 1}\n{"st', 1.0)[0].end == 12
    lines.begin_anew(0)
    (event,) = lines.take(0, b'{"step": 2}\n', 2.0)
    assert (event.offset, event.lines) == (0, (b'{"step": 2}',))


def test_a_line_without_an_end_is_not_held_for_ever() -> None:
    """A program that writes no line at all cannot grow the daemon."""
    lines = _Lines(0)
    assert lines.take(0, b"x" * 600_000, 1.0) == []
    (event,) = lines.take(600_000, b"x" * 600_000, 2.0)
    assert (event.offset, event.end) == (0, 1_200_000)


def test_a_gpu_that_tells_null_is_one_that_tells_nothing() -> None:
    """The shape of a frame allows it: it ended the watching of that target's GPUs."""
    sample = {"index": 0, "processes": None, "extra": None}
    (gpu,) = gpus_sampled({"kind": "gpus", "t": 1.0, "samples": [sample]}).samples
    assert (gpu.processes, gpu.extra) == ((), {})
