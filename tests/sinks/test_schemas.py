"""Bodies against the forms that receivers expect; each schema names where its words are from."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from orchestrator.sinks import bodies
from orchestrator.sinks.base import Message
from tests.sinks.alerts import alert

SCHEMAS = Path(__file__).parent / "schemas"
MESSAGES = {
    "firing": Message(id="i1-firing-1", alerts=(alert(),)),
    "resolved": Message(id="i1-resolved", alerts=(alert(status="resolved"),)),
    "digest": Message(
        id="digest-1",
        alerts=(alert(), replace(alert("i2"), labels={**alert().labels, "run": "dflash-3"})),
    ),
}


def faults(schema: str, body: Any) -> list[str]:
    """What is wrong with a body that has travelled as JSON."""
    document = json.loads((SCHEMAS / f"{schema}.schema.json").read_text())
    Draft7Validator.check_schema(document)
    found = Draft7Validator(document).iter_errors(json.loads(json.dumps(body, allow_nan=False)))
    return [f"{'.'.join(map(str, one.path))}: {one.message}" for one in found]


@pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES)
def test_bodies_are_what_receivers_expect(message: Message) -> None:
    """Firing, resolved and several in one, in both forms."""
    assert faults("alertmanager-webhook-4", bodies.alertmanager(message, "ops")) == []
    event = bodies.cloudevents(message, "ops")
    assert faults("cloudevents-1.0", event) == []
    assert faults("alertmanager-webhook-4", event["data"]) == []


def test_the_schemas_find_what_is_wrong() -> None:
    """A number among the labels, a time without a zone, an unknown key: each is seen."""
    body = bodies.alertmanager(MESSAGES["firing"], "ops")
    body["alerts"][0]["labels"]["attempt"] = 1
    body["alerts"][0]["startsAt"] = "2027-01-15 08:00:00"
    assert len(faults("alertmanager-webhook-4", {**body, "extra": 1})) == 3
    event = bodies.cloudevents(MESSAGES["firing"], "ops")
    assert len(faults("cloudevents-1.0", {**event, "specversion": "0.3", "type": ""})) == 2
