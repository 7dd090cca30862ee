"""What a relay that alerts itself leaves in files, and what of a program's words it passes on."""

from collections.abc import Callable

import pytest

from orchestrator.probe import procfs
from orchestrator.probe.names import OWN_ALERT_FILE
from tests.lab.receiver import Receiver
from tests.probe.driver import Driver, Run, eventually
from tests.probe.test_own_alert import SECRET, armed

pytestmark = pytest.mark.tmux

ESCAPES = r"printf '\033]52;c;AA==\007\302\233 2J\342\200\256 last words\n'"


def test_it_keeps_no_address_and_passes_on_no_escape(
    probe: Driver, a_run: Run, receiver: Receiver, tmux: Callable[..., str]
) -> None:
    """Once told: the answer is kept; a value is covered also where forms of it were too many."""
    own = armed(f"{receiver.url}/s3cret-path", receiver.secret)
    own["forms"] = []
    env = {"HF_TOKEN": SECRET}
    program = f"echo token {SECRET}; {ESCAPES}; exit 3"
    probe.call("launch", **a_run.spec("sh", "-c", program, env=env, own_alert=own))
    (request,) = receiver.wait_for(1)
    token, last = receiver.verify(request)["alerts"][0]["annotations"]["evidence"].split("\n")
    assert token == f"token {'*' * len(SECRET)}"
    assert last.endswith(" last words")
    assert last.isprintable()
    kept = a_run.attempt() / OWN_ALERT_FILE
    eventually(lambda: b'"200"' in kept.read_bytes(), "the answer")
    content = b"".join(one.read_bytes() for one in a_run.attempt().iterdir() if one.is_file())
    for hidden in ("s3cret-path", receiver.secret.removeprefix("whsec_")):
        assert hidden.encode() not in content


def test_an_end_that_was_noted_is_told_by_nobody(
    probe: Driver, a_run: Run, receiver: Receiver
) -> None:
    """The one that waits leaves without a word, and nothing is sent once it has left."""
    own = armed(receiver.url, receiver.secret, within_s=60.0)
    probe.call("launch", **a_run.spec("sh", "-c", "exit 1", own_alert=own))
    eventually((a_run.attempt() / "exit.json").exists, "an end")
    assert of_relay(a_run)
    probe.call("acknowledge", attempt_dir=str(a_run.attempt()))
    eventually(lambda: not of_relay(a_run), "the waiter to leave")
    assert receiver.received == []


def of_relay(run: Run) -> list[int]:
    """The relay and who was forked off it."""
    words = ["-I", "-S", "attempt", str(run.attempt())]
    found = [(one.pid, procfs.arguments(one.pid)) for one in procfs.every()]
    return [pid for pid, argv in found if [*argv[1:3], *argv[4:]] == words]
