"""Sinks that are no webhook: a command, and Apprise."""

import asyncio
import json
import sys
from pathlib import Path

import pytest
from aiohttp import web

from orchestrator.clock import SystemClock
from orchestrator.core.model import SinkSpec
from orchestrator.sinks import Message, Outcome, Rack
from orchestrator.sinks.apprise import AppriseSink
from orchestrator.sinks.command import CommandSink
from tests.sinks.alerts import alert
from tests.sinks.receiver import Answer, Receiver

# Apprise tries imghdr first and does without it where it is gone (3.13).
pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")

ONE = Message(id="i1-firing-1", alerts=(alert(),))


def _nothing(_name: str) -> None:
    return None


async def test_command_gets_the_body_and_the_id(tmp_path: Path) -> None:
    """A command reads the body on stdin, knows the alert's id, and sees none of our variables."""
    out = tmp_path / "out"
    program = (
        "import json,os,sys; json.dump([json.load(sys.stdin), dict(os.environ)],"
        f"open({str(out)!r},'w'))"
    )
    sink = CommandSink(
        SinkSpec(name="bell", type="command", command=(sys.executable, "-c", program))
    )
    values = {"PATH": "/usr/bin", "ORCH_WEBHOOK_SECRET": "s3cret"}
    assert (await sink.send(ONE, values.get)).outcome is Outcome.TAKEN
    body, environment = json.loads(out.read_text())
    assert body["alerts"][0]["labels"]["alertname"] == "fx_trace_race"
    assert environment["ORCH_ALERT_ID"] == "i1-firing-1"
    assert environment["PATH"] == "/usr/bin"
    assert "ORCH_WEBHOOK_SECRET" not in environment


async def test_command_that_fails_is_refused() -> None:
    """A command that is missing, ends non-zero or hangs has not taken the alert."""
    answers = {}
    for name, argv in {
        "missing": ("/nowhere/bell",),
        "fails": ("sh", "-c", "exit 3"),
        "hangs": ("sleep", "60"),
    }.items():
        spec = SinkSpec(name=name, type="command", command=argv)
        sink = CommandSink(spec, deadline_s=1.0)
        result = await sink.send(ONE, _nothing)
        assert result.outcome is Outcome.REFUSED
        answers[name] = result.text
    assert answers == {
        "missing": "/nowhere/bell cannot be run: No such file or directory",
        "fails": "sh ended with 3",
        "hangs": "sleep did not end within 1 s",
    }


def test_sinks_are_made_by_their_types() -> None:
    """Each type of the inventory has its sink; another one is a fault of ours."""
    types = ("webhook", "apprise", "command")
    specs = tuple(SinkSpec(name=f"my {kind}", type=kind) for kind in types)
    made = Rack(SystemClock()).sinks(specs)
    assert [(one.name, one.type) for one in made] == [(f"my {kind}", kind) for kind in types]
    with pytest.raises(ValueError, match="sink x has the unknown type pigeon"):
        Rack(SystemClock()).sinks((SinkSpec(name="x", type="pigeon"),))


async def test_apprise_sends_a_text() -> None:
    """Through Apprise people get the summary as a title and a short text."""
    receiver = await Receiver().start()
    sink = AppriseSink(SinkSpec(name="phone", type="apprise", url_env="PHONE"))
    values = {"PHONE": receiver.url.replace("http:", "json:")}
    assert (await sink.send(ONE, values.get)).outcome is Outcome.TAKEN
    (request,) = receiver.taken
    assert request.document["title"] == "dflash-2 crashed: FX tracing race (i1)"
    assert "same as run 1: not a fix" in request.document["message"]
    assert request.document["type"] == "failure"
    await receiver.stop()


async def test_apprise_that_fails_shows_no_address() -> None:
    """A wrong or dead Apprise address is refused without being shown."""
    sink = AppriseSink(SinkSpec(name="phone", type="apprise", url_env="PHONE"))
    wrong = await sink.send(ONE, {"PHONE": "nothing://s3cret"}.get)
    dead = await sink.send(ONE, {"PHONE": "json://127.0.0.1:1/s3cret"}.get)
    assert wrong.text == "the value of PHONE is no address that Apprise knows"
    assert dead.text == "JSON did not take it"
    assert {wrong.outcome, dead.outcome} == {Outcome.REFUSED}


async def test_apprise_tells_nobody_twice_for_want_of_another() -> None:
    """Of two addresses the one that took a message is left alone while the other is tried again."""
    chat = await Receiver().start()
    other = await Receiver(Answer(status=500), Answer(status=500)).start()
    sink = AppriseSink(SinkSpec(name="phone", type="apprise", url_env="PHONE"))
    both = " ".join(one.url.replace("http:", "json:") for one in (chat, other))
    results = [await sink.send(ONE, {"PHONE": both}.get) for _ in range(3)]
    assert [one.outcome for one in results] == [Outcome.REFUSED, Outcome.REFUSED, Outcome.TAKEN]
    assert [len(chat.requests), len(other.requests)] == [1, 3]
    again = await sink.send(ONE, {"PHONE": both}.get)
    assert again.outcome is Outcome.TAKEN
    assert [len(chat.requests), len(other.requests)] == [2, 4]
    await chat.stop()
    await other.stop()


@pytest.mark.parametrize("separator", [" ", ",", ";", ", ", " , ", ";\n"])
async def test_apprise_addresses_are_separated_as_apprise_does(separator: str) -> None:
    """Two addresses are two receivers, each told at its own path, whatever lies between them."""
    chat, other = await Receiver().start(), await Receiver().start()
    sink = AppriseSink(SinkSpec(name="phone", type="apprise", url_env="PHONE"))
    both = separator.join(one.url.replace("http:", "json:") for one in (chat, other))
    result = await sink.send(ONE, {"PHONE": f"{both},"}.get)
    assert (result.outcome, result.text) == (Outcome.TAKEN, "JSON, JSON")
    paths = [[one.path.rstrip("/") for one in each.requests] for each in (chat, other)]
    assert paths == [["/hook/s3cret"], ["/hook/s3cret"]]
    await sink.close()
    await chat.stop()
    await other.stop()


@pytest.mark.parametrize("value", [",", " ; ", "json://127.0.0.1:1/s3cret nothing", "://,"])
async def test_apprise_value_without_an_address_is_refused(value: str) -> None:
    """Nobody was told, and that is not called taken."""
    sink = AppriseSink(SinkSpec(name="phone", type="apprise", url_env="PHONE"))
    result = await sink.send(ONE, {"PHONE": value}.get)
    assert result.outcome is Outcome.REFUSED
    assert result.text == "the value of PHONE is no address that Apprise knows"
    await sink.close()


async def test_apprise_sends_after_it_was_closed() -> None:
    """An outbox that begins anew has its sinks closed before, and uses them again."""
    chat = await Receiver().start()
    sink = AppriseSink(SinkSpec(name="phone", type="apprise", url_env="PHONE"))
    values = {"PHONE": chat.url.replace("http:", "json:")}
    for _ in range(2):
        assert (await sink.send(ONE, values.get)).outcome is Outcome.TAKEN
        await sink.close()
    assert len(chat.requests) == 2
    await chat.stop()


def _patient(receiver: Receiver) -> str:
    """An address that Apprise itself gives up after 25 s, not 4 s: the machine may be slow."""
    return receiver.url.replace("http:", "json:") + "?cto=25&rto=25"


async def test_apprise_that_answers_late_is_told_once() -> None:
    """One that takes longer than the deadline is waited for by the next try, not told anew."""
    slow = [await Receiver(then=Answer(wait_s=2.0)).start() for _ in range(2)]
    sink = AppriseSink(SinkSpec(name="phone", type="apprise", url_env="PHONE"), deadline_s=0.3)
    both = " ".join(_patient(one) for one in slow)
    texts: list[str] = []
    async with asyncio.timeout(30):
        while (result := await sink.send(ONE, {"PHONE": both}.get)).outcome is Outcome.REFUSED:
            texts.append(result.text)
    assert "no answer from JSON, JSON within 0.3 s" in texts
    assert [len(one.requests) for one in slow] == [1, 1]
    await sink.close()
    for one in slow:
        await one.stop()


class Together(Receiver):
    """Answers once all that share its barrier have been asked."""

    def __init__(self, barrier: asyncio.Barrier) -> None:
        super().__init__()
        self._barrier = barrier

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        await self._barrier.wait()
        return await super()._answer(request)


async def test_apprise_tells_all_at_the_same_time() -> None:
    """No address waits for another one's answer."""
    barrier = asyncio.Barrier(4)
    receivers = [await Together(barrier).start() for _ in range(4)]
    sink = AppriseSink(SinkSpec(name="phone", type="apprise", url_env="PHONE"))
    all_four = " ".join(_patient(one) for one in receivers)
    result = await sink.send(ONE, {"PHONE": all_four}.get)
    assert result.outcome is Outcome.TAKEN, result.text
    assert [len(one.requests) for one in receivers] == [1, 1, 1, 1]
    await sink.close()
    for one in receivers:
        await one.stop()
