"""repeat, compare and bisect: how often a job crashes, and since which release."""

import argparse
from collections.abc import Iterable, Mapping
from typing import Any

from orchestrator.api.client import Client
from orchestrator.cli import output
from orchestrator.cli.check import check_lines, refuses
from orchestrator.cli.main import INTERRUPTED
from orchestrator.cli.reach import connect
from orchestrator.cli.ship import DeployNews
from orchestrator.cli.status import FAILED

Message = dict[str, Any]


def repeat(options: argparse.Namespace) -> int:
    """Run a job N times; prints each end and the crash rate. 100 where a trial crashed."""
    body = {
        "job": options.job,
        "count": options.count,
        "until_crash": options.until_crash,
        "cold_cache": options.cold_cache,
        "why": options.message,
        "env": dict(options.env),
        "args": options.rest,
        "force": options.force,
        "deploy": not options.no_deploy,
    }
    said = _follow(connect(options), "/v1/repeat", body, options)
    if said is None:
        return INTERRUPTED
    rates = [one for one in said if one["kind"] == "rate"]
    trials = [_trial(one) for one in said if one["kind"] == "trial"]
    rate = _without_kind(rates[-1])
    if options.json:
        output.print_json({"schema": 1, "trials": trials, **{"rate": rate}})
    else:
        output.say(*_rate_lines(rate))
    return FAILED if rate["crashes"] else 0


def compare(options: argparse.Namespace) -> int:
    """Print the crash rates of two releases of a job, and whether they differ."""
    query = {"job": options.job, "a": options.a, "b": options.b}
    said = connect(options).get("/v1/compare", query)
    if options.json:
        output.print_json(said)
        return 0
    for side in ("a", "b"):
        output.say(f"release {said[side]['release']}: {said[side]['text']}")
        output.say(*_causes(said[side]))
    output.say(said["text"])
    return 0


def bisect(options: argparse.Namespace) -> int:
    """Find the release that began to crash, by trials on the releases in between."""
    body = {
        "job": options.job,
        "good": options.good,
        "bad": options.bad,
        "count": options.count,
        "env": dict(options.env),
        "args": options.rest,
    }
    client = connect(options)
    said = _follow(client, "/v1/bisect", body, options)
    if said is None:
        return INTERRUPTED
    found = _without_kind(said[-1])
    judged = [_without_kind(one) for one in said if one["kind"] == "judged"]
    if options.json:
        output.print_json({"schema": 1, **found, "judged": judged})
    else:
        output.say(f"release {found['release']} is the first bad one")
        output.say(*(f"  {line}" for line in _surety(judged, found["release"])))
    return 0


def _follow(
    client: Client, path: str, body: Message, options: argparse.Namespace
) -> list[Message] | None:
    """The messages to their end, shown as they come; None where the person has left."""
    news, said = DeployNews(quiet=options.json), list[Message]()
    try:
        for message in client.stream("POST", path, body):
            known = message["kind"] == "warning" and message in said
            said.append(message)
            if known:  # each trial would say it again
                continue
            if not news.show(message) and not options.json:
                _show(message)
    except KeyboardInterrupt:
        runs = [one["run"]["id"] for one in said if one["kind"] == "stored"]
        output.note("no further trial is started" + (_under_way(runs[-1]) if runs else ""))
        return None
    return said


def _under_way(run: str) -> str:
    return f"; {run} goes on where it has not ended: `orch stop {run}` ends it"


def _show(message: Message) -> None:
    match message["kind"]:
        case "warning":
            output.note(f"warning: {message['text']}")
        case "preflight":
            bad = [one for one in message["checks"] if not one["ok"] and not refuses(one)]
            output.say(*check_lines(bad))
        case "trial":
            output.say(_trial_text(message))
        case "suspects":
            count = len(message["releases"])
            output.say(f"{count} releases are left; trying {message['next']}")
        case "judged":
            word = "bad" if message["bad"] else "good"
            output.say(f"release {message['release']} is {word}: {message['text']}")
        case _:
            pass


def _trial_text(message: Message) -> str:
    run = message["run"]
    took = None
    if run["started_at"] and run["ended_at"]:
        took = run["ended_at"] - run["started_at"]
    signature = (run["verdict"] or {}).get("signature")
    how = f"crashed: {signature or run['state']}" if message["crashed"] else run["state"]
    return (
        f"trial {message['number']} of {message['count']}: {run['id']} {how}"
        f" after {output.duration(took)}"
    )


def _trial(message: Message) -> Message:
    run = message["run"]
    return {
        "number": message["number"],
        "run": run["id"],
        "state": run["state"],
        "crashed": message["crashed"],
        "signature": (run["verdict"] or {}).get("signature"),
        "fingerprint": (run["verdict"] or {}).get("fingerprint"),
    }


def _without_kind(message: Message) -> Message:
    return {key: value for key, value in message.items() if key != "kind"}


def _rate_lines(rate: Mapping[str, Any]) -> list[str]:
    return [rate["text"], *_causes(rate)]


def _causes(rate: Mapping[str, Any]) -> list[str]:
    return [
        f"  {one['count']}  {one['signature']}  {one['title']}  ({', '.join(one['runs'])})"
        for one in rate["by_fingerprint"]
    ]


def _surety(judged: Iterable[Mapping[str, Any]], found: str) -> list[str]:
    """How much trials that did not crash prove."""
    lines = [
        f"{one['release']} was taken for good after {one['trials']} trials without a crash:"
        f" it may still crash in up to {one['high']:.0%} of runs"
        for one in judged
        if not one["bad"] and one["release"] != found
    ]
    return lines[-1:]
