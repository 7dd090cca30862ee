"""doctor, alert test and simulate: whether all between here, the GPUs and the phone works."""

import argparse
from collections.abc import Mapping
from typing import Any

from orchestrator.cli import output
from orchestrator.cli.reach import connect

CRITICAL = 3
DOCTOR_TIMEOUT_S = 180.0


def doctor(options: argparse.Namespace) -> int:
    """Print every check with its remedy; 3 where a critical one failed."""
    found = connect(options).get("/v1/doctor", timeout_s=DOCTOR_TIMEOUT_S)
    if options.json:
        output.print_json(found)
    else:
        for line in check_lines(found["checks"]):
            output.say(*output.wrapped(line))
    return CRITICAL if any(map(refuses, found["checks"])) else 0


def refuses(check: Mapping[str, Any]) -> bool:
    """Whether a check failed that must not."""
    return not check["ok"] and bool(check["critical"])


def check_lines(checks: list[dict[str, object]]) -> list[str]:
    """Checks as lines: `ok`, `warn` or `FAIL`, what was found, and the remedy below it.

    What an earlier check said already, as of one host that many targets are on, is said once.
    """
    lines: list[str] = []
    told: dict[str, str] = {}
    for check in checks:
        name, text, remedy = (str(check[key] or "") for key in ("name", "text", "remedy"))
        word = "ok  " if check["ok"] else "FAIL" if check["critical"] else "warn"
        painted = word if check["ok"] else output.emphasis(word, "31" if word == "FAIL" else "33")
        if check["ok"]:
            lines.append(f"{painted}  {name}: {text}")
            continue
        for known, before in told.items():
            text = text.replace(known, f"the same as {before}")
        lines.append(f"{painted}  {name}: {text}")
        if remedy and remedy not in told:
            lines.append(f"      {remedy}")
        # A check may quote another with its remedy; the longer is looked for first.
        for whole in (f"{check['text']} {remedy}", str(check["text"]), remedy):
            told.setdefault(whole, name)
    return lines


def simulate(options: argparse.Namespace) -> int:
    """Play a signature's sample as a run; 1 where it is not recognised, or an alert not taken."""
    body = {"signature": options.signature, "target": options.target}
    said = []
    for message in connect(options).stream("POST", "/v1/simulate", body):
        said.append(message)
        if not options.json:
            output.say(*_simulation_lines(message))
    ended = next((one for one in said if one["kind"] == "ended"), None)
    found = (ended["incident"] or {}) if ended else {}
    told = [one for one in said if one["kind"] == "delivered"]
    sinks = [sink for one in told for sink in one["sinks"]]
    recognised = found.get("signature") == options.signature
    arrived = bool(sinks) and all(one["state"] == "delivered" for one in sinks)
    if options.json:
        document = {"incident": found or None, "alerts": [_without_kind(one) for one in told]}
        output.print_json({"schema": 1, "recognised": recognised, "arrived": arrived, **document})
    elif not sinks:
        output.note("no sink was told: the inventory has none, or a silence keeps this back")
    return 0 if recognised and arrived else 1


def _simulation_lines(message: Mapping[str, Any]) -> list[str]:
    match message["kind"]:
        case "stored":
            return [f"{message['run']['id']} plays it on {message['run']['target']}"]
        case "ended":
            incident = message["incident"]
            if incident is None:
                return ["nothing was recognised"]
            return [f"recognised: {incident['signature']}: {incident['title']}"]
        case "delivered":
            return [
                f"{message['status']} to {one['sink']}: {one['state']}"
                + (f" ({one['error']})" if one["error"] else "")
                for one in message["sinks"]
            ]
        case _:
            return []


def _without_kind(message: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in message.items() if key != "kind"}


def test_alert(options: argparse.Namespace) -> int:
    """Send a test alert to one sink, or to all; 1 where one did not arrive."""
    client = connect(options)
    said = client.call("POST", "/v1/alert-test", {"sink": options.sink}, timeout_s=120.0)
    if options.json:
        output.print_json(said)
    elif not said["results"]:
        output.note("the inventory has no sinks: add one under alerts, and a route to it")
    else:
        rows = [
            [one["sink"], "delivered" if one["ok"] else "failed", one["text"]]
            for one in said["results"]
        ]
        output.say(*output.table(("SINK", "RESULT", "ANSWER"), rows))
    return 0 if said["results"] and all(one["ok"] for one in said["results"]) else 1
