"""doctor and alert test: whether everything between here and the GPUs, and the phone, works."""

import argparse

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
        output.say(*check_lines(found["checks"]))
    return CRITICAL if any(not one["ok"] and one["critical"] for one in found["checks"]) else 0


def check_lines(checks: list[dict[str, object]]) -> list[str]:
    """Checks as lines: `ok`, `warn` or `FAIL`, what was found, and the remedy below it."""
    lines = []
    for check in checks:
        word = "ok  " if check["ok"] else "FAIL" if check["critical"] else "warn"
        painted = word if check["ok"] else output.emphasis(word, "31" if word == "FAIL" else "33")
        lines.append(f"{painted}  {check['name']}: {check['text']}")
        if not check["ok"] and check["remedy"]:
            lines.append(f"      {check['remedy']}")
    return lines


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
