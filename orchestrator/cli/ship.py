"""deploy and rollback: which release a job has on its target."""

import argparse
import sys
from collections.abc import Mapping
from typing import Any

from orchestrator.api.client import Client
from orchestrator.cli import output
from orchestrator.cli.reach import begin, connect, warn_if_outdated

MAX_PATHS = 12


def deploy(options: argparse.Namespace) -> int:
    """Ship the jobs' packages; prints plan, progress and result. Never asks."""
    news = DeployNews(quiet=options.json)
    body = {"jobs": options.jobs, "dry_run": options.dry_run}
    client, messages = begin(options, "/v1/deploy", body)
    warn_if_outdated(client.daemon)
    for message in messages:
        if not news.show(message) and message["kind"] == "warning":
            output.note(f"warning: {message['text']}")
        if message["kind"] == "done":
            break  # nobody waits until the connections are closed
    if options.json:
        output.print_json({"plans": news.plans, "deployed": news.deployed})
    return 0


class DeployNews:
    """Shows the messages of a deploy, and keeps what a JSON document needs of them."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._drawn = False
        self._under_way: dict[str, str] = {}
        """By target: they are sent to side by side."""
        self.plans: list[dict[str, Any]] = []
        self.deployed: list[dict[str, Any]] = []

    def show(self, message: dict[str, Any]) -> bool:
        """Show one message; False where it is not a deploy's."""
        match message["kind"]:
            case "plan":
                self.plans.append(message["plan"])
                self._say(*plan_lines(message["job"], message["plan"]))
            case "progress":
                self._progress(message)
            case "setup":
                self._say(f"  setup  {message['line']}")
            case "deployed":
                self.deployed.append({k: v for k, v in message.items() if k != "kind"})
                self._say(deployed_text(message))
            case "done":
                pass
            case _:
                return False
        return True

    def _say(self, *lines: str) -> None:
        if self._drawn:
            print("\r\x1b[K", end="", flush=True)
            self._drawn = False
        if not self._quiet:
            output.say(*lines)

    def _progress(self, message: Mapping[str, Any]) -> None:
        """One line that is drawn over, on a terminal only."""
        if self._quiet or not sys.stdout.isatty() or not message["total_bytes"]:
            return
        self._under_way[message["target"]] = progress_text(message)
        print(f"\r\x1b[K  {'; '.join(self._under_way.values())}", end="", flush=True)
        self._drawn = True


def progress_text(message: Mapping[str, Any]) -> str:
    """How far the sending to one target is, how fast it goes and what time is left."""
    sent, total, rate = message["sent_bytes"], message["total_bytes"], message["bytes_per_s"]
    text = f"{message['target']}: {output.size(sent)} of {output.size(total)}"
    if message["stage"] != "send" or not rate:
        return f"{text}, {message['stage']}"
    left = output.duration((total - sent) / rate)
    return f"{text}, {100 * sent // total} %, {output.size(rate)}/s, {left} left"


def plan_lines(job: str, plan: Mapping[str, Any]) -> list[str]:
    """What a deploy would do."""
    count, total = plan["files_to_send"], plan["files"]
    lines = [f"{job} -> {plan['target']}: release {plan['release']}"]
    if plan["release"] == plan["current"]:
        return [f"{lines[0]} is what is deployed"]
    if plan["exists"]:
        return [f"{lines[0]} is there already; only the switch is left"]
    size = output.size(plan["bytes_to_send"])
    lines.append(
        f"  {count} of {total} files to send ({size}), {plan['files_unchanged']} unchanged"
    )
    lines += [f"    {path}" for path in plan["paths"][:MAX_PATHS]]
    if len(plan["paths"]) > MAX_PATHS:
        lines.append(f"    and {len(plan['paths']) - MAX_PATHS} more")
    if plan["setup"]:
        lines.append("  its environment is made first")
    return lines


def deployed_text(message: Mapping[str, Any]) -> str:
    """One line for what was done."""
    done = "deployed" if message["switched"] else "unchanged"
    took = output.duration(message["seconds"])
    what = f"release {message['release']} {done} on {message['target']}"
    return f"{message['job']}: {what} in {took}"


def rollback(options: argparse.Namespace) -> int:
    """Make an earlier release the current one."""
    client: Client = connect(options)
    said = client.call("POST", "/v1/rollback", {"job": options.job, "release": options.to})
    if options.json:
        output.print_json(said)
    else:
        output.say(
            f"{said['job']}: release {said['current']} is the current one again",
            f"`orch run --no-deploy {said['job']}` keeps it; a plain one deploys your folder",
        )
    return 0
