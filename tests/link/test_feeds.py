"""What a subscriber gets: every byte once and in order, whatever becomes of probe and link."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.core.model import LinkState
from orchestrator.link.calls import CallFailed
from orchestrator.link.feeds import Watch
from orchestrator.link.link import Link
from orchestrator.probe.frames import WINDOW_BYTES, BadFrame, Frame, pack
from tests.link.fakes import FakeProbe, FakeTarget, settle, until

ARGS: dict[str, Any] = {
    "attempt_dir": "/r/1",
    "log_offset": 100,
    "metrics_path": "/r/metrics.jsonl",
    "metrics_offset": 5,
}


@pytest.fixture
def there() -> FakeTarget:
    """A fake target of this test."""
    return FakeTarget()


@pytest.fixture
async def link(there: FakeTarget) -> AsyncIterator[Link]:
    """A started link to it."""
    made = there.link()
    await made.start()
    yield made
    await made.close()
    await there.transport.close()


async def take(watch: Watch, count: int) -> list[Frame]:
    """The next frames of a watch."""
    frames: list[Frame] = []
    async with asyncio.timeout(30):
        async for frame in watch:
            frames.append(frame)
            if len(frames) == count:
                break
    return frames


async def test_bytes_come_in_order_and_joined(there: FakeTarget, link: Link) -> None:
    """Bytes come as bytes, those that adjoin in one frame, and other frames in their place."""
    watch = await link.watch("w", **ARGS)
    assert there.probe.args_of("watch") == [{"watch": "w", **ARGS}]
    there.probe.send_bytes(100, b"one")
    there.probe.send_bytes(103, b"two")
    there.probe.send(kind="session", watch="w", detached=True)
    there.probe.send_bytes(106, b"three")
    await settle()
    frames = await take(watch, 3)
    assert [(f.get("offset"), f.get("data"), f["kind"]) for f in frames] == [
        (100, b"onetwo", "bytes"),
        (None, None, "session"),
        (106, b"three", "bytes"),
    ]


async def test_acks_open_the_window(there: FakeTarget, link: Link) -> None:
    """What the subscriber has stored is passed on to the probe, long before its window is full."""
    watch = await link.watch("w", **ARGS)
    end = 100 + WINDOW_BYTES // 4
    await watch.ack("log", end)
    await until(lambda: bool(there.probe.acks))
    assert there.probe.acks == [{"kind": "ack", "watch": "w", "stream": "log", "offset": end}]


async def test_a_line_is_not_acknowledged_alone(there: FakeTarget, link: Link) -> None:
    """A thousand short lines cost no frame back, and their sum is told once it matters."""
    watch = await link.watch("w", **ARGS)
    for number in range(1000):
        await watch.ack("log", 100 + 60 * number)
    assert await link.call("acknowledge") == {}
    assert there.probe.acks == []
    for number in range(1, 11):
        await watch.ack("log", 100 + number * WINDOW_BYTES // 10)
    assert await link.call("acknowledge") == {}
    assert 0 < len(there.probe.acks) < 10


async def test_a_file_that_begins_anew_is_acknowledged_anew(there: FakeTarget, link: Link) -> None:
    """Behind a gap that leads to the file's beginning the count begins there as well."""
    watch = await link.watch("w", log_offset=10 * WINDOW_BYTES)
    gap = {"offset": 10 * WINDOW_BYTES, "size": 0, "reason": "truncated", "next": 0}
    there.probe.send(kind="gap", watch="w", stream="log", **gap)
    await take(watch, 1)
    await watch.ack("log", WINDOW_BYTES)
    await until(lambda: bool(there.probe.acks))


async def test_reconnect_goes_on_where_it_was(there: FakeTarget, link: Link) -> None:
    """A new probe is asked for what was not handed out: what waited is dropped, nothing twice."""
    watch = await link.watch("w", **ARGS)
    there.probe.send_bytes(100, b"handed out")
    assert (await take(watch, 1))[0]["data"] == b"handed out"
    there.probe.send_bytes(110, b"waiting")
    there.probe.send_bytes(5, b"{}\n", stream="metrics")
    await settle()
    await there.lose_probe(link)
    await until(lambda: bool(there.probe.args_of("watch")))
    assert there.probe.args_of("watch") == [{"watch": "w", **ARGS, "log_offset": 110}]
    there.probe.send_bytes(110, b"waiting, and more")
    assert (await take(watch, 1))[0]["data"] == b"waiting, and more"


async def test_gap_says_where_it_goes_on(there: FakeTarget, link: Link) -> None:
    """After a gap the bytes go on at its `next`, and so does a new probe."""
    watch = await link.watch("w", **ARGS)
    there.probe.send(
        kind="gap", watch="w", stream="log", offset=100, size=50, next=0, reason="rotated"
    )
    there.probe.send_bytes(0, b"anew")
    gap, more = await take(watch, 2)
    assert (gap["kind"], gap["size"], more["data"]) == ("gap", 50, b"anew")
    await there.lose_probe(link)
    await until(lambda: bool(there.probe.args_of("watch")))
    assert there.probe.args_of("watch")[0]["log_offset"] == 4


async def test_end_comes_once(there: FakeTarget, link: Link) -> None:
    """The exit record is the last frame, the loop ends by itself, and no new probe is asked."""
    watch = await link.watch("w", **ARGS)
    there.probe.send(kind="exit", watch="w", record={"code": 0})
    async with asyncio.timeout(30):
        assert [frame["kind"] async for frame in watch] == ["exit"]
    assert watch.over
    await there.lose_probe(link)
    assert await link.call("acknowledge") == {}
    assert there.probe.args_of("watch") == []


async def test_end_that_was_not_handed_out_comes_again(there: FakeTarget, link: Link) -> None:
    """An exit record that waited when the link was cut is had from the next probe."""
    watch = await link.watch("w", **ARGS)
    there.probe.send(kind="exit", watch="w", record={"code": 0})
    await settle()
    await there.lose_probe(link)
    await until(lambda: bool(there.probe.args_of("watch")))
    there.probe.send(kind="exit", watch="w", record={"code": 0})
    assert len(await take(watch, 2)) == 1


async def test_watch_of_nothing(there: FakeTarget, link: Link) -> None:
    """A watch that the probe refuses is refused, and not asked for again."""

    def refuse(probe: FakeProbe, call: Frame) -> None:
        error = {"type": "Refused", "message": "There is no attempt in /r/1."}
        probe.send(kind="result", id=call["id"], error=error)

    there.answers["watch"] = refuse
    with pytest.raises(CallFailed, match="no attempt in /r/1"):
        await link.watch("w", **ARGS)
    await there.lose_probe(link)
    assert await link.call("acknowledge") == {}
    assert there.probe.args_of("watch") == []


async def test_attempt_that_vanished_meanwhile(there: FakeTarget, link: Link) -> None:
    """Where a new probe finds no such attempt any more, the subscriber gets that as an error."""
    watch = await link.watch("w", **ARGS)

    def refuse(probe: FakeProbe, call: Frame) -> None:
        error = {"type": "Refused", "message": "There is no attempt in /r/1."}
        probe.send(kind="result", id=call["id"], error=error)

    there.answers["watch"] = refuse
    await there.lose_probe(link)
    with pytest.raises(CallFailed, match="no attempt in /r/1"):
        await take(watch, 1)


async def test_watch_on_a_link_that_is_down(there: FakeTarget, link: Link) -> None:
    """A watch begun while the link is down begins when the link is back."""
    await there.transport.close()
    await until(lambda: link.state is LinkState.UNREACHABLE)
    watch = await link.watch("w", **ARGS)
    assert len(there.probes) == 1
    link.poke()
    await until(lambda: len(there.probes) == 2 and bool(there.probe.args_of("watch")))
    there.probe.send_bytes(100, b"x")
    assert (await take(watch, 1))[0]["data"] == b"x"


async def test_closed_watch_ends_its_loop(there: FakeTarget, link: Link) -> None:
    """Closing ends the loop of the subscriber, and the watch on the probe."""
    watch = await link.watch("w", **ARGS)
    reading = asyncio.ensure_future(take(watch, 1))
    await settle()
    await watch.close()
    assert await reading == []
    await until(lambda: there.probe.args_of("unwatch") == [{"watch": "w"}])


async def test_closed_link_ends_every_loop(there: FakeTarget, link: Link) -> None:
    """Closing the link ends the loops of all its subscribers."""
    watch, feed = await link.watch("w", **ARGS), link.listen("gpus")
    readings = [asyncio.ensure_future(take(one, 1)) for one in (watch, feed)]  # type: ignore[arg-type]
    await settle()
    await link.close()
    assert await asyncio.gather(*readings) == [[], []]


async def test_the_name_taken_again(there: FakeTarget, link: Link) -> None:
    """A second watch of the same name takes the place of the first, whose loop ends."""
    first = await link.watch("w", **ARGS)
    reading = asyncio.ensure_future(take(first, 1))
    await settle()
    second = await link.watch("w", **ARGS)
    assert await reading == []
    there.probe.send_bytes(100, b"x")
    assert len(await take(second, 1)) == 1


async def test_probe_that_ignores_the_window(there: FakeTarget, link: Link) -> None:
    """A probe that sends more than was acknowledged is cut off before memory is full."""
    await link.watch("w", **ARGS)
    chunk, offset = b"x" * 100_000, 100
    for _ in range(3 * WINDOW_BYTES // len(chunk)):
        there.probe.send_bytes(offset, chunk)
        offset += len(chunk)
    await until(lambda: link.state is LinkState.UNREACHABLE)
    assert "than were acknowledged" in str(link.problem)


async def test_probe_that_sends_endless_small_frames(there: FakeTarget, link: Link) -> None:
    """Frames without bytes are bounded by their number."""
    await link.watch("w", **ARGS)
    for _ in range(25_000):
        there.probe.send(kind="session", watch="w", detached=True)
    await until(lambda: link.state is LinkState.UNREACHABLE)
    assert "than were acknowledged" in str(link.problem)


async def test_feed_keeps_the_newest(there: FakeTarget, link: Link) -> None:
    """Samples that nobody reads make room for newer ones; other kinds do not come."""
    feed = link.listen("gpus", most=3)
    for number in range(10):
        there.probe.send(kind="gpus", t=number, samples=[])
        there.probe.send(kind="kernel", t=1, seq=number, line="x")
    assert await link.call("acknowledge") == {}
    seen = []
    async with asyncio.timeout(30):
        async for frame in feed:
            seen.append(frame["t"])
            if len(seen) == 3:
                break
    assert seen == [7, 8, 9]
    link.unlisten(feed)
    there.probe.send(kind="gpus", t=10, samples=[])
    assert [frame async for frame in feed] == []


class _Nobody:
    async def acknowledge(self, watch: str, stream: str, offset: int) -> None:
        """Nothing."""

    async def unwatch(self, watch: str) -> None:
        """Nothing."""


ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.just("log"),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)
FRAMES = st.fixed_dictionaries(
    {"kind": st.sampled_from(["bytes", "gap", "exit", "gone", "session", "x"])},
    optional=dict.fromkeys(("stream", "offset", "data", "next", "size"), ODD),
)


@settings(max_examples=300, deadline=None)
@given(frames=st.lists(FRAMES, max_size=5))
def test_frames_of_any_shape(frames: list[Frame]) -> None:
    """Whatever a frame holds, it is taken or it is a BadFrame; nothing else is raised."""

    async def accept() -> None:
        watch = Watch("w", ARGS, _Nobody())
        for frame in frames:
            try:
                watch.accept(frame)
            except BadFrame:
                return
        watch.end()

    asyncio.run(accept())


@settings(max_examples=100, deadline=None)
@given(
    content=st.binary(max_size=200),
    cuts=st.lists(st.integers(1, 40), min_size=1, max_size=30),
    losses=st.sets(st.integers(0, 29)),
)
def test_no_byte_lost_none_twice(content: bytes, cuts: list[int], losses: set[int]) -> None:
    """However the stream is cut up, and wherever the link is lost, the bytes are the file's."""

    async def follow() -> bytes:
        watch = Watch("w", {"log_offset": 0}, _Nobody())
        got = bytearray()
        sent = watch.restart()["log_offset"]
        for number, size in enumerate(cuts * 20):
            chunk = content[sent : sent + size]
            if not chunk:
                break
            watch.accept(
                {"kind": "bytes", "stream": "log", "offset": sent, "data": pack(chunk), "t": 0.0}
            )
            sent += len(chunk)
            if number % 2:
                got += (await take(watch, 1))[0]["data"]
            if number in losses:
                sent = watch.restart()["log_offset"]
        watch.accept({"kind": "exit", "record": {}})
        async for frame in watch:
            got += frame.get("data", b"")
        return bytes(got)

    if len(content) <= sum(cuts) * 10:
        assert asyncio.run(follow()) == content
