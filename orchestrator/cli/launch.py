"""run: deploy what changed, preflight, launch, follow to the end; Ctrl-C leaves the run alone."""

import argparse
from typing import Any

from orchestrator.api.client import Client
from orchestrator.cli import output
from orchestrator.cli.check import check_lines, refuses
from orchestrator.cli.follow import Follower, reminder_lines, screen_for, summary_lines, watch
from orchestrator.cli.leaving import Leaving
from orchestrator.cli.main import INTERRUPTED
from orchestrator.cli.reach import connect, warn_if_outdated
from orchestrator.cli.ship import DeployNews
from orchestrator.cli.status import ENDS
from orchestrator.cli.stop import stopped_text
from orchestrator.core.errors import DaemonError


def run(options: argparse.Namespace) -> int:
    """Launch a job and follow it; the exit code is the run's: 0, 100, or 103."""
    client = connect(options)
    warn_if_outdated(client.daemon)
    with Leaving() as leaving:
        try:
            launched = _launch(client, options, leaving)
        except KeyboardInterrupt:
            output.note(
                "left while the run was launched: `orch ps` says whether it is there"
                if leaving.too_late
                else "left; nothing was launched"
            )
            return INTERRUPTED
    if leaving.asked:
        _say_how_to_come_back(launched)
        return INTERRUPTED
    return followed(client, launched, options)


def followed(client: Client, launched: dict[str, Any], options: argparse.Namespace) -> int:
    """A run that is on its way, to its end; with --detach just its id."""
    if options.detach:
        if options.json:
            output.print_json({"run": launched["id"]})
        else:
            output.say(
                f"{launched['id']} is on its way; `orch logs -f {launched['id']}` follows it"
            )
        return 0
    scrolled: dict[str, dict[str, Any]] = {}
    try:
        return _follow(client, launched["id"], options, scrolled)
    except KeyboardInterrupt:
        if scrolled:
            output.say("", *reminder_lines(scrolled))
        _say_how_to_come_back(launched)
        return INTERRUPTED


def _launch(client: Client, options: argparse.Namespace, leaving: Leaving) -> dict[str, Any]:
    """Everything until the run and its launch are stored; from there on the daemon sees to it."""
    news = DeployNews(quiet=options.json)
    stored: dict[str, Any] | None = None
    with news.told_once():
        for message in client.stream("POST", "/v1/run", _body(options)):
            if message["kind"] == "stored":
                stored = message["run"]
                nodes = message.get("nodes") or []  # a daemon of older code knows none
                if len(nodes) > 1 and not options.json:
                    output.say(
                        *(f"node {one['node']}: {one['id']} on {one['target']}" for one in nodes)
                    )
            elif message["kind"] == "launching":
                leaving.wait_for_it()
            elif not news.show(message):
                _show(message, options)
    if stored is None:
        raise DaemonError("The daemon launched nothing and did not say why.")
    return stored


def _body(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "job": options.job,
        "why": options.message,
        "replace": options.replace,
        "env": dict(options.env),
        "args": options.rest,
        "force": options.force,
        "deploy": not options.no_deploy,
    }


def _show(message: dict[str, Any], options: argparse.Namespace) -> None:
    if message["kind"] == "warning":
        output.note(f"warning: {message['text']}")
    elif options.json:
        return
    elif message["kind"] == "preflight":
        # What refuses is said once, with the refusal.
        said = [one for one in message["checks"] if options.force or not refuses(one)]
        output.say("preflight", *(f"  {line}" for line in check_lines(said)))
    elif message["kind"] == "ended":
        output.say(stopped_text(message))


def _follow(
    client: Client,
    run_id: str,
    options: argparse.Namespace,
    scrolled: dict[str, dict[str, Any]],
) -> int:
    follower = Follower(options, client, run_id)
    if options.json:
        view = _wait_silently(follower)
        output.print_json(view)
    else:
        with screen_for(client) as screen:
            view = watch(follower, screen, scrolled=scrolled)
        output.say(*summary_lines(view), *reminder_lines(scrolled))
    return ENDS.get(view["state"], 1)


def _wait_silently(follower: Follower) -> dict[str, Any]:
    for message in follower.messages(tail=0):
        if message["kind"] == "end":
            return dict(message["run"])
    raise DaemonError("The daemon never said how the run ended.")


def _say_how_to_come_back(run: dict[str, Any]) -> None:
    name = run["id"]
    output.note(
        f"detached; {output.run_name(run)} goes on. Back to it: `orch logs -f {name}`, "
        f"`orch attach {name}`; end it: `orch stop {name}`"
    )
