"""deploy and rollback: which release a job has on its target."""

import argparse
import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from orchestrator.api.client import Client
from orchestrator.cli import output
from orchestrator.cli.reach import begin, connect, warn_if_outdated
from orchestrator.core.errors import ApiError

MAX_PATHS = 12


def deploy(options: argparse.Namespace) -> int:
    """Ship the jobs' packages; prints plan, progress and result. Never asks."""
    news = DeployNews(quiet=options.json)
    body = {"jobs": options.jobs, "dry_run": options.dry_run}
    client, messages = begin(options, "/v1/deploy", body)
    warn_if_outdated(client.daemon)
    with news.told_once():
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
        self._under_way: dict[str, Mapping[str, Any]] = {}
        """By target: they are sent to side by side."""
        self._setup: set[str] = set()
        """Lines of setup's output that were shown."""
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
                self._setup.add(message["line"])
                self._say(f"  setup  {message['line']}")
            case "deployed":
                self._under_way.pop(message["target"], None)
                self.deployed.append({k: v for k, v in message.items() if k != "kind"})
                self._say(deployed_text(message))
            case "done":
                pass
            case _:
                return False
        return True

    @contextlib.contextmanager
    def told_once(self) -> Iterator[None]:
        """An error that quotes what was shown already says the rest of its words alone."""
        try:
            yield
        except ApiError as error:
            first, *others = error.message.split("\n")
            if not self._quiet:
                others = [line for line in others if line not in self._setup]
            raise ApiError(
                "\n".join([first, *others]),
                remedy=error.remedy,
                exit_code=error.exit_code,
                checks=error.checks,
                problems=error.problems,
            ) from error

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
        import shutil  # loads five modules of archives

        self._under_way[message["target"]] = message
        columns = shutil.get_terminal_size().columns
        text = progress_line(list(self._under_way.values()), columns - 1)
        print(f"\r\x1b[K{text}", end="", flush=True)
        self._drawn = True


def progress_line(under_way: Sequence[Mapping[str, Any]], columns: int) -> str:
    """All targets side by side, in words that fit into one line of a terminal."""
    forms = (progress_text, _short_progress, _least_progress)
    lines = ["  " + "; ".join(map(form, under_way)) for form in forms]
    return next((line for line in lines if len(line) <= columns), lines[-1][:columns])


def _short_progress(message: Mapping[str, Any]) -> str:
    text, rate = _least_progress(message), message["bytes_per_s"]
    if message["stage"] != "send" or not rate:
        return f"{text} {message['stage']}"
    left = output.duration((message["total_bytes"] - message["sent_bytes"]) / rate)
    return f"{text} {output.size(rate)}/s {left} left"


def _least_progress(message: Mapping[str, Any]) -> str:
    return f"{message['target']} {100 * message['sent_bytes'] // message['total_bytes']} %"


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
    where = f"{job} -> {plan['target']}: release"
    setup = ["  its environment is made first"] if plan["setup"] else []
    if plan["release"] == plan["current"]:
        return [f"{where} {plan['release']} is what is deployed", *setup]
    arrow = f"{plan['current']} -> {plan['release']}" if plan["current"] else plan["release"]
    if plan["exists"]:
        only = "" if setup else "; only the switch is left"
        return [f"{where} {arrow}, which is there already{only}", *setup]
    lines = [f"{where} {arrow}"]
    size = output.size(plan["bytes_to_send"])
    lines.append(
        f"  {count} of {total} files to send ({size}), {plan['files_unchanged']} unchanged"
    )
    lines += [f"    {_shown(path)}" for path in plan["paths"][:MAX_PATHS]]
    if len(plan["paths"]) > MAX_PATHS:
        lines.append(f"    and {len(plan['paths']) - MAX_PATHS} more")
    return [*lines, *setup]


def _shown(path: str) -> str:
    """A path on one line: control characters and broken bytes are escaped."""
    text = path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return text if text.isprintable() else repr(text)[1:-1]


def deployed_text(message: Mapping[str, Any]) -> str:
    """One line for what was done."""
    done = "deployed" if message["switched"] else "unchanged"
    took = output.duration(message["seconds"])
    what = f"release {message['release']} {done} on {message['target']}"
    return f"{message['job']}: {what} in {took}"


def rollback(options: argparse.Namespace) -> int:
    """Make an earlier release the current one."""
    client: Client = connect(options)
    said = client.call("POST", "/v1/rollback", {"job": options.job, "release": options.release})
    if options.json:
        output.print_json(said)
    else:
        output.say(
            f"{said['job']}: release {said['current']} is the current one again",
            f"`orch run --no-deploy {said['job']}` keeps it; a plain one deploys your folder",
        )
    return 0
