"""Sinks that are no webhook: a command, and Apprise."""

import json
import sys
from pathlib import Path

import pytest

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
