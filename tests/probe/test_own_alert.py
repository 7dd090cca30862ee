"""The relay alerts a webhook itself where nobody took note of a bad end in time."""

import os
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.parse.secret_forms import wire_forms
from orchestrator.probe.own_alert import in_other_forms
from tests.lab.certificate import self_signed
from tests.lab.receiver import Answer, Receiver
from tests.probe.driver import Driver, Run, eventually

pytestmark = pytest.mark.tmux

SECRET = "hf_0123456789abcdef"
LABELS = {"host": "here", "target": "local", "job": "job", "run": "job-1", "attempt": "1"}


def armed(url: str, key: str, within_s: float = 0.5, form: str = "alertmanager") -> dict[str, Any]:
    """What a launch hands over."""
    sink = {"name": "ops", "url": url, "keys": [key.removeprefix("whsec_")], "format": form}
    return {
        "id": "job-1.u.1-end",
        "within_s": within_s,
        "labels": LABELS,
        "secrets": ["HF_TOKEN"],
        "forms": wire_forms([SECRET], 1 << 20),
        "sinks": [sink],
    }


def is_over(run: Run) -> bool:
    """Whether the waiter has left, having told nobody."""
    names = os.listdir(run.attempt())
    return "exit.json" in names and not any(name.startswith("own_alert.") for name in names)


def test_a_bad_end_that_nobody_notes_is_told_signed_and_under_one_id(
    probe: Driver, a_run: Run, receiver: Receiver, tmux: Callable[..., str]
) -> None:
    """The body is Alertmanager's, with the last lines; the pane is dead while the relay waits."""
    coded, wrapped = (
        b64encode(f"user:{SECRET}".encode()).decode(),
        f"{SECRET[:9]}; echo {SECRET[9:]}",
    )
    program = f"echo step 1; echo token {SECRET}; echo Basic {coded}; echo {wrapped}; "
    program += "echo last words; exit 3"
    own = armed(receiver.url, receiver.secret, within_s=3.0)
    env = {"HF_TOKEN": SECRET}
    probe.call("launch", **a_run.spec("sh", "-c", program, env=env, own_alert=own))
    eventually((a_run.attempt() / "exit.json").exists, "an end")
    eventually(lambda: tmux("list-panes", "-a", "-F", "#{pane_dead}") == "1\n", "a dead pane")
    assert receiver.received == []
    (request,) = receiver.wait_for(1)

    body = receiver.verify(request)
    assert body["wrapper_alert"] is True
    assert body["status"] == "firing"
    assert body["receiver"] == "ops"
    (alert,) = body["alerts"]
    assert alert["labels"] == {**LABELS, "alertname": "failed_exit", "severity": "critical"}
    assert "exit code 3" in alert["annotations"]["summary"]
    assert alert["annotations"]["evidence"].split("\n")[-1] == "last words"
    assert f"token {'*' * len(SECRET)}" in alert["annotations"]["evidence"]
    assert coded[8:-3] not in alert["annotations"]["evidence"]
    assert SECRET[9:] not in alert["annotations"]["evidence"]
    assert request.headers["webhook-id"] == own["id"]

    probe.call("watch", **a_run.watch())
    probe.kind("exit")
    first = next(frame for frame in probe.frames if frame.get("watch") == a_run.run)
    assert first["kind"] == "told"


def test_address_and_secret_are_nowhere_but_in_memory(
    probe: Driver, a_run: Run, receiver: Receiver, tmux: Callable[..., str]
) -> None:
    """Neither words of a program, nor an environment, nor tmux, nor a file holds them."""
    own = armed(f"{receiver.url}/s3cret-path", receiver.secret, within_s=60.0)
    probe.call("launch", **a_run.spec("sh", "-c", "echo $0; env; exit 1", own_alert=own))
    eventually((a_run.attempt() / "exit.json").exists, "an end")
    waiting = [
        path
        for path in Path("/proc").glob("[0-9]*")
        if str(a_run.attempt()).encode() in _content(path / "cmdline")
    ]
    assert waiting, "the relay left nobody behind"
    held = [_content(path / name) for path in waiting for name in ("cmdline", "environ")]
    held += [path.read_bytes() for path in a_run.attempt().iterdir() if path.is_file()]
    held.append(tmux("show-environment", "-g").encode())
    held.append(tmux("list-panes", "-a", "-F", "#{pane_start_command}").encode())
    for hidden in (b"s3cret-path", receiver.secret.removeprefix("whsec_").encode()):
        assert all(hidden not in one for one in held)
    probe.call("acknowledge", attempt_dir=str(a_run.attempt()))
    eventually(lambda: is_over(a_run), "the waiter to leave")


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


@pytest.mark.parametrize("how", ["acknowledged", "finished", "stopped"])
def test_nothing_is_told_of_an_end_that_is_known_or_good(
    probe: Driver, a_run: Run, receiver: Receiver, how: str
) -> None:
    """A daemon's word in time, exit code 0, and a person's stop each leave the webhook alone."""
    own = armed(receiver.url, receiver.secret, within_s=5.0)
    program = {"acknowledged": "exit 1", "finished": "exit 0", "stopped": "sleep 100"}[how]
    probe.call("launch", **a_run.spec("sh", "-c", program, own_alert=own))
    if how == "stopped":
        probe.call("end", **a_run.end())
    eventually((a_run.attempt() / "exit.json").exists, "an end")
    if how == "acknowledged":
        probe.call("acknowledge", attempt_dir=str(a_run.attempt()))
        probe.call("acknowledge", attempt_dir=str(a_run.attempt()))
    eventually(lambda: is_over(a_run), "the waiter to leave")
    assert receiver.received == []


def test_what_is_refused_is_sent_again_under_the_same_id(
    probe: Driver, a_run: Run, receiver: Receiver
) -> None:
    """A receiver that fails for a while is told all the same, by the same message."""
    receiver.script(Answer(status=503), Answer(cut=True, status=200))
    own = armed(receiver.url, receiver.secret)
    probe.call("launch", **a_run.spec("sh", "-c", "kill -9 $$", own_alert=own))
    first, second = receiver.wait_for(2, timeout_s=40)[:2]
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert receiver.verify(second)["alerts"][0]["labels"]["alertname"] == "killed"


def test_a_redirect_is_not_followed_and_an_unknown_certificate_not_trusted(
    probe: Driver, a_run: Run, receiver: Receiver, tmp_path: Path
) -> None:
    """What was handed over is the one address, as the daemon itself would use it."""
    with Receiver() as elsewhere, Receiver(tls=self_signed(tmp_path)) as closed:
        receiver.script(Answer(status=307, headers={"Location": elsewhere.url}))
        own = armed(receiver.url, receiver.secret)
        own["sinks"] += armed(closed.url, closed.secret)["sinks"]
        own["sinks"][1]["name"] = "closed"
        probe.call("launch", **a_run.spec("sh", "-c", "exit 1", own_alert=own))
        receiver.wait_for(2, timeout_s=40)
        assert elsewhere.received == closed.received == []


def test_cloudevents_hold_the_same_body(probe: Driver, a_run: Run, receiver: Receiver) -> None:
    """A sink of the other format gets an event whose data is the alert."""
    own = armed(receiver.url, receiver.secret, form="cloudevents")
    probe.call("launch", **a_run.spec("sh", "-c", "exit 1", own_alert=own))
    (request,) = receiver.wait_for(1)
    event = receiver.verify(request)
    assert event["specversion"] == "1.0"
    assert event["id"] == request.headers["webhook-id"]
    assert event["data"]["wrapper_alert"] is True


def test_blank_lines_behind_a_first_letter_do_not_hold_the_relay() -> None:
    """Each gap between two letters is taken whole: thirty such lines took minutes."""
    forms = wire_forms(["hunter2-secret-99"], 100_000)
    tail = b"h" + b"\n    " * 200 + b"hunter2-s\n  ecret-99"
    assert in_other_forms(tail, forms).endswith(b"\n    *********\n**********")
