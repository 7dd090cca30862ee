"""The bodies that receivers hold on to, pinned."""

from dataclasses import replace

from orchestrator.sinks import bodies
from orchestrator.sinks.base import Message
from tests.sinks.alerts import alert

ONE = Message(id="i1-firing-1", alerts=(alert(),))


def test_alertmanager_body_is_pinned() -> None:
    """The body is Alertmanager's, version 4, key by key."""
    expected_alert = {
        "status": "firing",
        "labels": dict(alert().labels),
        "annotations": dict(alert().annotations),
        "startsAt": "2027-01-15T08:00:00.250Z",
        "endsAt": "0001-01-01T00:00:00Z",
        "generatorURL": "",
        "fingerprint": "v1:aa",
    }
    assert bodies.alertmanager(ONE, "ops") == {
        "version": "4",
        "groupKey": '{}:{incident="i1"}',
        "truncatedAlerts": 0,
        "status": "firing",
        "receiver": "ops",
        "groupLabels": {"alertname": "fx_trace_race", "job": "dflash", "run": "dflash-2"},
        "commonLabels": dict(alert().labels),
        "commonAnnotations": dict(alert().annotations),
        "externalURL": "",
        "alerts": [expected_alert],
    }


def test_resolved_has_its_end() -> None:
    """A resolved alert says when it ended, and the body is resolved."""
    message = Message(id="x", alerts=(alert(status="resolved"),))
    body = bodies.alertmanager(message, "ops")
    assert (body["status"], body["alerts"][0]["endsAt"]) == ("resolved", "2027-01-15T08:01:00.000Z")


def test_digest_keeps_only_what_is_common() -> None:
    """Alerts of a digest share one body; common labels are those that all have."""
    other = replace(alert("i2"), labels={**alert().labels, "run": "dflash-3"})
    body = bodies.alertmanager(Message(id="digest-1", alerts=(alert(), other)), "ops")
    assert body["groupKey"] == '{}:{digest="digest-1"}'
    assert len(body["alerts"]) == 2
    assert "run" not in body["commonLabels"]
    assert body["commonLabels"]["job"] == "dflash"


def test_cloudevents_form() -> None:
    """The other form is a CloudEvents 1.0 event around the same body."""
    event = bodies.cloudevents(ONE, "ops")
    data = event.pop("data")
    assert data == bodies.alertmanager(ONE, "ops")
    assert event == {
        "specversion": "1.0",
        "id": "i1-firing-1",
        "source": "/orch/pve1",
        "type": "orch.incident.firing",
        "subject": "i1",
        "time": "2027-01-15T08:00:00.250Z",
        "datacontenttype": "application/json",
    }


def test_text_for_people() -> None:
    """A chat gets the summary, what it is the same as, the end of the traceback, the command."""
    long = "\n".join(f"frame {number}" for number in range(500))
    message = Message(id="x", alerts=(alert(traceback=long),))
    assert bodies.title(message) == "dflash-2 crashed: FX tracing race (i1)"
    text = bodies.text(message)
    assert len(text) <= bodies.TEXT_LIMIT
    assert "same as run 1: not a fix" in text
    assert "frame 499" in text
    assert "frame 100\n" not in text
    assert text.endswith("orch explain i1")


def test_digest_for_people() -> None:
    """A chat gets a digest as one line an incident."""
    message = Message(id="d", alerts=(alert("i1"), alert("i2")))
    assert bodies.title(message) == "2 incidents within a minute"
    assert bodies.text(message).count("crashed: FX tracing race") == 2


def test_text_is_cut_in_the_middle() -> None:
    """Even with endless lines a text keeps its limit, its beginning and its end."""
    text = bodies.text(Message(id="x", alerts=(alert(traceback="x" * 90_000),)))
    assert len(text) <= bodies.TEXT_LIMIT + 2
    assert "[...]" in text
    assert text.endswith("orch explain i1")
