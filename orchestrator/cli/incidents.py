"""incidents, explain and ack: what went wrong, why, and that somebody cares."""

import argparse

from orchestrator.api.client import quoted
from orchestrator.cli import output
from orchestrator.cli.reach import connect


def incidents(options: argparse.Namespace) -> int:
    """Print incidents, open ones unless all are wanted."""
    query = {"all": 1 if options.all else None, "run": options.run}
    found = connect(options).get("/v1/incidents", query)
    if options.json:
        output.print_json(found)
        return 0
    if not found["incidents"]:
        output.say("no incidents" if options.all or options.run else "no open incidents")
        return 0
    moment = output.now()
    rows = [
        [
            one["id"],
            one["run"],
            one["severity"],
            one["state"],
            output.age(one["opened_at"], moment),
            str(one["occurrences"]),
            one["signature"],
            one["title"],
        ]
        for one in found["incidents"]
    ]
    heads = "INCIDENT RUN SEVERITY STATE OPENED TIMES SIGNATURE TITLE"
    spare = ("TIMES", "SEVERITY", "SIGNATURE", "STATE")
    output.say(*output.table(heads.split(), rows, spare=spare))
    return 0


def explain(options: argparse.Namespace) -> int:
    """Print cause, evidence and next steps of an incident."""
    said = connect(options).get(f"/v1/incidents/{quoted(options.incident)}/explain")
    if options.json:
        output.print_json(said)
    else:
        text, behind, traceback = said["markdown" if options.markdown else "text"].partition(
            "\nTraceback:\n"
        )
        for line in text.splitlines():
            output.say(*([line] if options.markdown else output.wrapped(line)))
        output.say(*f"{behind}{traceback}".splitlines())
    return 0


def ack(options: argparse.Namespace) -> int:
    """Say that somebody cares: the incident is acknowledged, where it is open."""
    client = connect(options)
    incident = client.get(f"/v1/incidents/{quoted(options.incident)}")
    before = incident["state"]
    if before == "open":
        incident = client.call("POST", f"/v1/incidents/{quoted(incident['id'])}/ack", {})
    if options.json:
        output.print_json(incident)
        return 0
    said = {"open": "acknowledged", "acknowledged": "was acknowledged already"}
    how = said.get(before, "is resolved, nothing is left to acknowledge")
    output.say(f"{incident['id']} {how}: {incident['title']}")
    return 0
