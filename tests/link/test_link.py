"""A link against scripted probes: states, calls, reconnects, and what a hostile probe may try."""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from orchestrator.core.errors import Unreachable
from orchestrator.core.model import LinkState
from orchestrator.link.calls import CallFailed
from orchestrator.link.link import Link
from orchestrator.probe.frames import Frame, encode
from tests.link.fakes import HELLO, FakeProbe, FakeTarget, settle, until

CONNECTED, DEGRADED, UNREACHABLE = LinkState


@pytest.fixture
def there() -> FakeTarget:
    """A fake target of this test."""
    return FakeTarget()


@pytest.fixture
async def link(there: FakeTarget) -> AsyncIterator[Link]:
    """A link to it, closed behind the test."""
    made = there.link()
    yield made
    await made.close()
    await there.transport.close()


async def test_start_and_close(there: FakeTarget, link: Link) -> None:
    """A link is unreachable, then connected, then unreachable again, and says when it saw whom."""
    states: list[LinkState] = []
    link.on_state(states.append)
    assert (link.state, link.seen_at, link.hello) == (UNREACHABLE, None, None)
    await link.start()
    assert (link.state, link.hello) == (CONNECTED, HELLO)
    assert link.seen_at == there.clock.now()
    await link.close()
    assert states == [CONNECTED, UNREACHABLE]
    with pytest.raises(Unreachable, match="is closed"):
        await link.call("gpus")


async def test_a_reader_of_states_can_leave(link: Link) -> None:
    """After its leave a reader hears of no state."""
    states: list[LinkState] = []
    link.on_state(states.append)()
    await link.start()
    assert states == []


async def test_calls_and_answers(there: FakeTarget, link: Link) -> None:
    """Calls carry op and arguments, and each gets its own answer, in whatever order they come."""
    late: list[tuple[FakeProbe, Frame]] = []

    def keep_first(probe: FakeProbe, call: Frame) -> None:
        late.append((probe, call))
        if len(late) == 2:
            for kept, one in reversed(late):
                kept.result(one, {"data": one["args"]["path"], "size": 0})

    there.answers["read"] = keep_first
    await link.start()
    values = await asyncio.gather(link.call("read", path="/a"), link.call("read", path="/b"))
    assert [one["data"] for one in values] == ["/a", "/b"]
    assert there.probe.args_of("read") == [{"path": "/a"}, {"path": "/b"}]


async def test_failed_call(there: FakeTarget, link: Link) -> None:
    """A failed op raises what the probe said, with its remedy and without terminal escapes."""

    def refuse(probe: FakeProbe, call: Frame) -> None:
        error = {"type": "Refused", "message": "no \x1b[31mtmux", "remedy": "Install\x07 it."}
        probe.send(kind="result", id=call["id"], error=error)

    there.answers["launch"] = refuse
    await link.start()
    with pytest.raises(CallFailed) as caught:
        await link.call("launch")
    error = caught.value
    assert str(error) == "ct200: no ?[31mtmux Install? it."
    assert (error.error_type, error.command, error.target) == ("Refused", "launch", "ct200")
    assert link.state is CONNECTED


async def test_progress_extends_the_time_of_a_call(there: FakeTarget, link: Link) -> None:
    """A call lives as long as there is news of it, though longer than its time in all."""

    def slowly(probe: FakeProbe, call: Frame) -> None:
        async def work() -> None:
            for step in range(3):
                await asyncio.sleep(1.5)
                probe.send(kind="progress", id=call["id"], value={"stage": str(step)})
            probe.result(call, {"path": "/done"})

        working.append(asyncio.ensure_future(work()))

    working: list[asyncio.Future[None]] = []
    news: list[Any] = []
    there.answers["release_commit"] = slowly
    await link.start()
    done = await link.call("release_commit", timeout_s=4, on_progress=news.append)
    assert done == {"path": "/done"}
    assert [one["stage"] for one in news] == ["0", "1", "2"]


async def test_call_without_an_answer(there: FakeTarget, link: Link) -> None:
    """A call that is not answered ends in time; a late answer harms nobody."""
    asked: list[Frame] = []
    there.answers["end"] = lambda probe, call: asked.append(call)
    await link.start()
    with pytest.raises(Unreachable, match=r"gave no answer to `end` within 0\.05 s"):
        await link.call("end", timeout_s=0.05)
    there.probe.result(asked[0], "late")
    assert await link.call("acknowledge") == {}


async def test_probe_that_dies_during_a_call(there: FakeTarget, link: Link) -> None:
    """Every call that was open when the probe died is told so."""
    there.answers["end"] = lambda probe, call: None
    await link.start()
    call = asyncio.ensure_future(link.call("end"))
    await until(lambda: bool(there.probe.args_of("end")))
    await there.transport.close()
    with pytest.raises(Unreachable, match="was lost while `end` ran"):
        await call


async def test_it_reconnects_with_growing_patience(there: FakeTarget, link: Link) -> None:
    """A lost probe is started anew after 0.5 s, then 1, 2, ... up to 15 s, for ever."""
    await link.start()
    there.transport.problem = Unreachable("no route", target="ct200")
    await there.transport.close()
    await until(lambda: link.state is UNREACHABLE)
    begun = len(there.transport.opened)
    tries = []
    for _ in range(300):
        await there.clock.advance(0.5)
        tries.append(len(there.transport.opened) - begun)
    moments = [0.5 * (at + 1) for at in range(300) if tries[at] != (tries[at - 1] if at else 0)]
    assert moments == [0.5, 1.5, 3.5, 7.5, 15.5, 30.5, 45.5, 60.5, 75.5, 90.5, 105.5, 120.5, 135.5]
    assert str(link.problem) == "no route"
    there.transport.problem = None
    await there.clock.advance(30)
    await until(lambda: link.state is CONNECTED)
    assert link.problem is None


async def test_faults_in_a_row_do_not_make_it_patient(there: FakeTarget, link: Link) -> None:
    """A probe that lived for seconds was found again at the first try, however often that is."""
    await link.start()
    for _ in range(10):
        await there.clock.advance(3)
        await there.transport.close()
        await until(lambda: link.state is UNREACHABLE)
        await there.clock.advance(0.5)
        await until(lambda: link.state is CONNECTED)


async def test_a_probe_that_dies_at_once_is_started_ever_more_seldom(
    there: FakeTarget, link: Link
) -> None:
    """Saying hello alone is no success: the back-off grows all the same."""

    async def die(probe: FakeProbe) -> None:
        raise asyncio.CancelledError

    there.script = die
    link.begin()
    for _ in range(120):
        await there.clock.advance(0.5)
    assert len(there.probes) < 10


async def test_a_host_that_comes_back_is_met_at_once(there: FakeTarget, link: Link) -> None:
    """However long the back-off has grown, it ends when the transport sees the host again."""
    there.transport.problem = Unreachable("no route", target="ct200")
    with pytest.raises(Unreachable):
        await link.start()
    await there.clock.advance(120)
    there.transport.problem = None
    await settle()
    assert link.state is UNREACHABLE
    there.transport.back.set()
    await until(lambda: link.state is CONNECTED)


async def test_a_host_that_is_back_and_not_yet_ready_is_tried_again_soon(
    there: FakeTarget, link: Link
) -> None:
    """What the back-off had grown to while nobody was there is forgotten once somebody is."""
    there.transport.problem = Unreachable("no route", target="ct200")
    with pytest.raises(Unreachable):
        await link.start()
    await there.clock.advance(120)
    there.transport.back.set()
    before = len(there.transport.opened)
    await until(lambda: len(there.transport.opened) > before)
    there.transport.problem = None
    await settle()
    assert link.state is UNREACHABLE
    await there.clock.advance(0.5)
    await until(lambda: link.state is CONNECTED)


async def test_first_attempt_that_fails(there: FakeTarget, link: Link) -> None:
    """`start` says why the first attempt failed, and the link comes up by itself later."""
    there.transport.problem = Unreachable("no route", target="ct200")
    with pytest.raises(Unreachable, match="no route"):
        await link.start()
    there.transport.problem = None
    await there.clock.advance(1)
    await until(lambda: link.state is CONNECTED)


async def test_a_call_tries_at_once(there: FakeTarget, link: Link) -> None:
    """A call on a link that is down does not wait for the back-off, and fails as that try did."""
    there.transport.problem = Unreachable("no route", target="ct200")
    with pytest.raises(Unreachable):
        await link.start()
    there.transport.problem = Unreachable("still none", target="ct200")
    with pytest.raises(Unreachable, match="still none"):
        await link.call("gpus")
    there.transport.problem = None
    assert await link.call("acknowledge") == {}


async def test_a_call_does_not_wait_for_a_slow_start(there: FakeTarget, link: Link) -> None:
    """A call's time counts while the probe is being started as well."""
    there.before_hello = b""
    starting = asyncio.ensure_future(link.start())
    await settle()
    with pytest.raises(Unreachable, match=r"no connection for `gpus` within 0\.05 s"):
        await link.call("gpus", timeout_s=0.05)
    starting.cancel()


async def test_poke_tries_at_once(there: FakeTarget, link: Link) -> None:
    """A poke ends the back-off, and is nothing to a link that is there."""
    there.transport.problem = Unreachable("no route", target="ct200")
    with pytest.raises(Unreachable):
        await link.start()
    there.transport.problem = None
    link.poke()
    await until(lambda: link.state is CONNECTED)
    link.poke()
    await settle()
    assert (link.state, len(there.probes)) == (CONNECTED, 1)


async def test_generations_grow(there: FakeTarget, link: Link) -> None:
    """Each start has a higher generation than the one before, even at the same moment."""
    await link.start()
    await there.lose_probe(link)
    words = [command.argv for command in there.transport.opened]
    generations = [int(one[one.index("key") - 1]) for one in words]
    assert generations[0] < generations[1]


async def test_late_pong_degrades(there: FakeTarget, link: Link) -> None:
    """A ping without an answer makes the link degraded, the next answer makes it whole."""
    await link.start()
    await there.clock.advance(11)
    assert link.state is CONNECTED
    there.probe.deaf = True
    await there.clock.advance(10)
    assert link.state is DEGRADED
    there.probe.deaf = False
    await there.clock.advance(5)
    await settle()
    assert link.state is CONNECTED


async def test_dead_probe_is_found_in_time(there: FakeTarget, link: Link) -> None:
    """A probe that sends nothing is given up within 20 s, and another one is started."""
    await link.start()
    there.probe.deaf = True
    await there.clock.advance(20)
    await until(lambda: link.state is UNREACHABLE or len(there.probes) == 2)
    assert len(there.probes) == 2 or "has been silent for" in str(link.problem)


async def test_a_flood_without_a_whole_frame_is_life(there: FakeTarget, link: Link) -> None:
    """On a slow way a frame may take long; its bytes alone show that the probe lives."""
    await link.start()
    there.probe.deaf = True
    there.probe.streams.write(b'{"kind":"x","pad":"')
    for _ in range(20):
        there.probe.streams.write(b"x")
        await settle()
        await there.clock.advance(4)
    assert (len(there.probes), link.state) == (1, DEGRADED)


HOSTILE = [
    b"no json\n",
    b"[]\n",
    b'{"kind":7}\n',
    b"[" * 200_000 + b"\n",
    b'{"kind":"result","id":1,"error":"no object"}\n',
    b'{"kind":"result","id":1,"value":7,"raw":3}\nabc',
    b'{"kind":"pong","n":1,"raw":0}\n',
    b'{"kind":"result","id":1,"value":{},"raw":-1}\n',
    b'{"kind":"result","id":1,"value":{},"raw":99999999}\n',
    b'{"kind":"bytes","watch":"w","stream":"log","offset":1,"data":""}\n',
    b'{"kind":"bytes","watch":"w","stream":"log","offset":-1,"data":""}\n',
    b'{"kind":"bytes","watch":"w","stream":"log","offset":true,"data":""}\n',
    b'{"kind":"bytes","watch":"w","stream":"log","offset":0,"data":"*"}\n',
    b'{"kind":"bytes","watch":"w","stream":"log","offset":0,"data":{}}\n',
    b'{"kind":"bytes","watch":"w","stream":["log"],"offset":0,"data":""}\n',
    b'{"kind":"bytes","watch":"w","stream":"other","offset":0,"data":""}\n',
    b'{"kind":"gap","watch":"w","stream":"log","offset":0}\n',
    b'{"kind":"gap","watch":"w","stream":"log","offset":0,"next":0,"size":-1,"reason":"rotated"}\n',
    b'{"kind":"bytes","watch":"w","stream":"log","offset":0,"data":"","t":"now"}\n',
    b'{"kind":"session","watch":"w","detached":"no"}\n',
    b'{"kind":"exit","watch":"w","record":[]}\n',
    b'{"kind":"gone","watch":"w"}\n',
    b'{"kind":"gpus"}\n',
    b'{"kind":"gpus","t":NaN,"samples":[]}\n',
    b'{"kind":"gpus","t":1,"samples":[{}]}\n',
    b'{"kind":"gpus","t":1,"samples":[{"index":0,"power_w":"hot"}]}\n',
    b'{"kind":"gpus","t":1,"samples":[{"index":0,"power_w":1e999}]}\n',
    b'{"kind":"gpus","t":1,"samples":[{"index":0,"temperature_c":1' + b"0" * 400 + b"}]}\n",
    b'{"kind":"gpus","t":1,"samples":[{"index":0,"processes":[{"pid":[]}]}]}\n',
    b'{"kind":"gpus","t":1,"samples":[{"index":0,"extra":{"nvlink_errors":{"crc_flit":{}}}}]}\n',
    b'{"kind":"gpus","t":1,"samples":[' + b'{"index":0},' * 200_000 + b'{"index":0}]}\n',
    b'{"kind":"kernel","t":1,"seq":"7","line":"x"}\n',
    b'{"kind":"kernel","t":1,"seq":7,"line":"' + b"x" * 300_000 + b'"}\n',
    b"x" * 9_000_000,
    b'{"kind":"pong","n":1,"more":"' + b"x" * 9_000_000 + b'"}\n',
]


@pytest.mark.parametrize("line", HOSTILE, ids=lambda line: repr(line[:60]))
async def test_hostile_frame_drops_the_link(there: FakeTarget, link: Link, line: bytes) -> None:
    """What is no frame, or breaks the order of a watch, ends this probe with a sentence."""
    there.answers["stuck"] = lambda probe, call: None
    await link.start()
    await link.watch("w", attempt_dir="/r", log_offset=0)
    call = asyncio.ensure_future(link.call("stuck"))
    await until(lambda: bool(there.probe.args_of("stuck")))
    there.probe.streams.write(line.replace(b'"id":1,', b'"id":%d,' % there.probe.calls[-1]["id"]))
    with pytest.raises(Unreachable, match="was lost while `stuck` ran"):
        await call
    await until(lambda: link.state is UNREACHABLE)
    assert "sent what is no frame" in str(link.problem)
    link.poke()
    await until(lambda: link.state is CONNECTED)


async def test_a_probe_that_says_hello_in_odd_types_is_none(there: FakeTarget, link: Link) -> None:
    """What it says of itself is looked at before anything believes it."""
    there.hello = {**HELLO, "hostname": {"x": "\x1b[2J"}}
    with pytest.raises(Unreachable, match="`hello` whose `hostname` is not a text"):
        await link.start()


WRONG: list[tuple[str, Any]] = [
    ("launch", None),
    ("launch", {"attempt_dir": "/r", "already": False, "session": "s", "pid": 1}),
    ("end", {"ended": [], "gpus": [], "remaining": [{"pid": "1"}], "gpu_holders": []}),
    ("gpus", {"samples": [{"index": -1}]}),
    ("preflight", {"checks": [{"name": "x", "ok": "yes", "text": "x"}], "versions": {}}),
    ("release_offer", {}),
    ("release_offer", {"missing": {}, "current": None, "exists": False, "setup": False}),
    ("release_switch", {"current": 7, "before": None, "path": "/", "release": {}}),
    ("runs_known", {"runs": [{"name": [], "attempts": []}]}),
    ("runs_highest", {"number": 10**30}),
    ("environment", []),
    ("cache_list", {"now": [], "saved": [{"name": "x"}]}),
    ("copy_tree", {"entries": [{"name": "x", "kind": "file", "size": -1, "mode": 0}]}),
    ("copy_read", {"data": "no bytes"}),
    ("kernel_lines", {"lines": [{}]}),
    ("dump", {"processes": [{"pid": 1, "command": "x", "stacks": 7}]}),
]


@pytest.mark.parametrize(("op", "value"), WRONG)
async def test_an_answer_of_another_shape_fails_its_call_alone(
    there: FakeTarget, link: Link, op: str, value: Any
) -> None:
    """Whoever asked is told what is wrong with it; nobody meets the value, and the link stays."""
    there.answers[op] = value
    await link.start()
    with pytest.raises(CallFailed, match=f"ct200: the probe's answer to `{op}` is none: `value"):
        await link.call(op)
    assert (link.state, len(there.probes)) == (CONNECTED, 1)


async def test_news_of_another_shape_drop_the_link(there: FakeTarget, link: Link) -> None:
    """Who reads the news of a call is not met by what is none; the link is there again."""

    def lie(probe: FakeProbe, call: Frame) -> None:
        probe.send(kind="progress", id=call["id"], value={"stage": ["verify"]})

    news: list[Any] = []
    there.answers["release_commit"] = lie
    await link.start()
    with pytest.raises(Unreachable, match="was lost while `release_commit` ran"):
        await link.call("release_commit", on_progress=news.append)
    assert news == []
    link.poke()
    await until(lambda: link.state is CONNECTED)


async def test_bytes_behind_an_answer_are_its_data(there: FakeTarget, link: Link) -> None:
    """However they are cut, newlines and all; the next frame begins behind them."""
    content = b"one\n{two}\n" * 1000

    def answer(probe: FakeProbe, call: Frame) -> None:
        raw = encode({"kind": "result", "id": call["id"], "value": {"data": content, "more": 1}})
        for at in range(0, len(raw), 777):
            probe.streams.write(raw[at : at + 777])

    there.answers["copy_read"] = answer
    await link.start()
    for _ in range(2):
        assert await link.call("copy_read") == {"data": content, "more": 1}
    assert await link.call("acknowledge") == {}


@pytest.mark.parametrize(
    "frame",
    [
        {"kind": "result", "id": [1]},
        {"kind": "result", "id": 999, "value": 1},
        {"kind": "progress"},
        {"kind": "pong"},
        {"kind": "pong", "n": 10**30},
        {"kind": "from the future", "watch": 7},
        {"kind": "bytes", "watch": "nobody's", "data": 0},
        {"kind": "bytes"},
        {"kind": "gpus", "t": 1, "samples": []},
    ],
)
async def test_odd_frame_is_passed_over(there: FakeTarget, link: Link, frame: Frame) -> None:
    """Frames that belong to nothing here are ignored, and the link stays."""
    await link.start()
    there.probe.send(**frame)
    assert await link.call("acknowledge") == {}
    assert (link.state, len(there.probes)) == (CONNECTED, 1)


async def test_kept_call_is_made_again(
    there: FakeTarget, link: Link, caplog: pytest.LogCaptureFixture
) -> None:
    """A kept call is made on every new probe; where it fails there, the link stays all the same."""
    there.answers["gpus"] = {"samples": []}
    await link.start()
    assert await link.keep("gpus", interval_s=2) == {"samples": []}
    assert await link.keep("gpus", interval_s=3) == {"samples": []}

    def refuse(probe: FakeProbe, call: Frame) -> None:
        probe.send(kind="result", id=call["id"], error={"type": "X", "message": "no driver"})

    there.answers["gpus"] = refuse
    with caplog.at_level(logging.WARNING):
        await there.lose_probe(link)
        await until(lambda: bool(caplog.records))
    assert there.probe.args_of("gpus") == [{"interval_s": 3}]
    assert link.state is CONNECTED


async def test_kept_call_does_not_hasten_a_link(there: FakeTarget, link: Link) -> None:
    """A kept call on a link that is down fails at once, and leaves the back-off as it is."""
    there.transport.problem = Unreachable("no route", target="ct200")
    with pytest.raises(Unreachable):
        await link.start()
    opened = len(there.transport.opened)
    for _ in range(10):
        with pytest.raises(Unreachable, match="no route"):
            await link.keep("gpus", interval_s=2)
    assert len(there.transport.opened) == opened
    there.transport.problem = None
    await there.clock.advance(1)
    await until(lambda: bool(there.probes) and there.probe.args_of("gpus") == [{"interval_s": 2}])


async def test_frame_that_is_too_large_to_send(link: Link) -> None:
    """A frame that the far side would refuse is refused here, and the link stays."""
    await link.start()
    with pytest.raises(ValueError, match="at most"):
        await link.call("release_blobs", data="x" * 9_000_000)
    assert await link.call("acknowledge") == {}


async def test_bulk(there: FakeTarget, link: Link) -> None:
    """A bulk probe lives beside the other one, under a key of its own, and ends with its block."""
    await link.start()
    async with link.bulk() as one, link.bulk() as two:
        assert await one.call("release_blobs", data="x") == {}
        assert await two.call("release_blobs", data="y") == {}
        keys = [command.argv for command in there.transport.opened]
        assert ["key" in keys[0], "key.bulk0" in keys[1], "key.bulk1" in keys[2]] == [True] * 3
    assert await link.call("acknowledge") == {}
    with pytest.raises(Unreachable, match="is gone"):
        await one.call("gpus")


async def test_bulk_probe_that_dies(there: FakeTarget, link: Link) -> None:
    """A call on a bulk probe that dies fails, and the link itself goes on."""
    await link.start()
    there.answers["stuck"] = lambda probe, call: None
    async with link.bulk() as bulk:
        call = asyncio.ensure_future(bulk.call("stuck"))
        await until(lambda: bool(there.probe.args_of("stuck")))
        there.probe.streams.write(b"garbage\n")
        with pytest.raises(Unreachable, match="was lost while `stuck` ran"):
            await call
    assert link.state is CONNECTED
