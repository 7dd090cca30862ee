"""What a person sees of a run while it lives: its lines, its incidents, its end.

Follows by byte offset, so a daemon that ended in between costs no line and shows none twice.
Plain lines here; on a terminal `live.py` adds one line of status below them.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from orchestrator.api.client import Client, quoted
from orchestrator.cli import output
from orchestrator.cli.reach import connect
from orchestrator.cli.show import exit_text, lost_text
from orchestrator.cli.verdict import incident_lines
from orchestrator.core.errors import DaemonError
from orchestrator.core.parse.terminal import printable, read_prefix
from orchestrator.core.patterns import read_pattern

MAX_PARTIAL_CHARS = 100_000
_PATIENCE_S = 60.0
"""How long a daemon may be away before following gives up."""


class Screen(Protocol):
    """Where lines go, and what is known of the run."""

    def line(self, text: str) -> None:
        """Show a line for good."""
        ...

    def unfinished(self, text: str) -> None:
        """Show the line that has not ended, as it is now: a progress bar draws over itself."""
        ...

    def update(self, run: Mapping[str, Any]) -> None:
        """Take the newest view of the run."""
        ...


class PlainScreen:
    """Lines on stdout and nothing else."""

    def line(self, text: str) -> None:
        """Print a line."""
        print(text, flush=True)

    def unfinished(self, text: str) -> None:
        """Show nothing: what is in a pipe cannot be drawn over."""

    def update(self, run: Mapping[str, Any]) -> None:
        """Show nothing: a pipe has no status line."""


class Lines:
    """Text in pieces -> whole lines, each as a terminal would show it in the end."""

    def __init__(self, *, colour: bool) -> None:
        self._colour = colour
        self._rest = ""

    def feed(self, text: str) -> list[str]:
        """The lines that have ended with this piece."""
        *whole, self._rest = (self._rest + text).split("\n")
        if len(self._rest) > MAX_PARTIAL_CHARS:
            # A progress bar that never ends its line: only its newest picture matters.
            self._rest = self._rest.rpartition("\r")[2][-MAX_PARTIAL_CHARS:]
        return [self._shown(line) for line in whole]

    @property
    def unfinished(self) -> str:
        """The line that has not ended, as it is now."""
        return self._shown(self._rest)

    def close(self) -> list[str]:
        """The last line, where it never ended."""
        rest, self._rest = self._rest, ""
        return [self._shown(rest)] if rest.strip() else []

    def _shown(self, line: str) -> str:
        drawn = [part for part in line.split("\r") if part]
        return output.harmless(drawn[-1], colour=self._colour) if drawn else ""


class Follower:
    """One run, followed to its end or until the person has seen enough."""

    def __init__(self, options: argparse.Namespace, client: Client, run: str) -> None:
        self._options = options
        self._client = client
        self._run = run
        self._at: tuple[int, int] | None = None
        """Attempt and offset behind the last byte shown."""
        self._tail: int | None = None
        self._since: float | None = None

    def messages(
        self, *, tail: int | None = None, since: float | None = None
    ) -> Iterator[dict[str, Any]]:
        """The messages of the run; goes on after a daemon that was started anew."""
        self._tail, self._since = tail, since
        away_since: float | None = None
        while True:
            try:
                for message in self._stream():
                    away_since = None
                    yield message
                    if message["kind"] == "end":
                        return
                raise DaemonError("The daemon ended.")  # noqa: TRY301  as if the call had broken
            except DaemonError:
                away_since = away_since or time.monotonic()
                if time.monotonic() - away_since > _PATIENCE_S:
                    raise
                output.note("the daemon ended; the run goes on; calling it again")
                time.sleep(0.2)
                self._client = connect(self._options)

    def _stream(self) -> Iterator[dict[str, Any]]:
        query: dict[str, str | int | float | None] = {
            "tail": self._tail,
            "since": self._since,
        }
        if self._at is not None:
            query = {"attempt": self._at[0], "offset": self._at[1]}
        for message in self._client.stream(
            "GET", f"/v1/runs/{quoted(self._run)}/follow", query=query
        ):
            if message["kind"] in {"log", "gap"}:
                if self._at is not None and message["attempt"] > self._at[0]:
                    yield {"kind": "attempt", "attempt": message["attempt"]}
                end = message.get("end", message["offset"] + message.get("size", 0))
                self._at = (message["attempt"], end)
            elif message["kind"] == "run":
                self._run = message["run"]["id"]
            yield message


def watch(
    follower: Follower,
    screen: Screen,
    *,
    tail: int | None = None,
    since: float | None = None,
    wanted: Callable[[str], bool] = lambda _: True,
    scrolled: dict[str, dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """Show a run until it ends; its last view. Incidents that lines came after go to `scrolled`."""
    lines = Lines(colour=output.is_coloured(sys.stdout))
    incidents: dict[str, dict[str, Any]] = {}
    scrolled = {} if scrolled is None else scrolled
    said = ""
    for message in follower.messages(tail=tail, since=since):
        match message["kind"]:
            case "log":
                for line in lines.feed(message["text"]):
                    if wanted(line):
                        screen.line(line)
                        scrolled.update(incidents)
                screen.unfinished(lines.unfinished)
            case "run":
                screen.update(message["run"])
                said = _show_restart(message["run"], said, screen)
            case "end":
                screen.unfinished("")
                for line in lines.close():
                    screen.line(line)
                return dict(message["run"])
            case "incident":
                if _show_incident(message["incident"], incidents, screen):
                    scrolled.pop(message["incident"]["id"], None)
            case _:
                screen.line(_remark(message))
    raise DaemonError("The daemon never said how the run ended.")


def _show_incident(
    incident: dict[str, Any], seen: dict[str, dict[str, Any]], screen: Screen
) -> bool:
    """Show an incident once, and again where its signature changed; whether it was shown."""
    before = seen.get(incident["id"])
    seen[incident["id"]] = incident
    if before is not None and before["signature"] == incident["signature"]:
        return False
    screen.line("")
    for line in incident_lines(incident):
        screen.line(output.harmless(line, colour=True))
    screen.line("")
    return True


def _show_restart(run: Mapping[str, Any], said: str, screen: Screen) -> str:
    """Say once that another attempt follows, and when; what is said of it now."""
    restart = run.get("restart") if run["state"] == "backoff" else None
    text = str(restart["said"]) if restart else ""
    if text and text != said:
        screen.line(f"[orch: {output.harmless(text)}]")
    return text


def _remark(message: Mapping[str, Any]) -> str:
    if message["kind"] == "attempt":
        return f"[orch: attempt {message['attempt']} begins]"
    if message["kind"] == "gap":
        size = output.size(message["size"])
        return f"[orch: {size} of output are lost: {output.harmless(message['reason'])}]"
    reason = f": {message['reason']}" if message.get("reason") else ""
    return f"[orch: the target is {message.get('state')}{output.harmless(reason)}]"


def screen_for(client: Client) -> AbstractContextManager[Screen]:
    """The live view on a terminal, plain lines elsewhere."""
    if sys.stdout.isatty():
        from orchestrator.cli.live import LiveScreen

        return LiveScreen(client)
    return nullcontext(PlainScreen())


def reminder_lines(incidents: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What was told of a run before the lines that hide it now, in a line each."""
    return [
        output.emphasis(f"  told  {output.harmless(one['title'])}  [{one['signature']}]", "1;31")
        for one in incidents.values()
    ]


def summary_lines(run: Mapping[str, Any]) -> list[str]:
    """How a run ended, and where to look further."""
    took = None
    if run["ended_at"] and run["started_at"]:
        took = run["ended_at"] - run["started_at"]
    facts = [f"{output.run_name(run)} {run['state']}", f"exit {exit_text(run)}"]
    facts += [f"after {output.duration(took)}"] if took is not None else []
    facts += [f"{run['step']} steps"] if run["step"] is not None else []
    facts += [f"last loss {output.number(run['loss'])}"] if run["loss"] is not None else []
    code = "1;32" if run["state"] == "finished" else "1;31"
    lines = [
        output.emphasis(", ".join(facts), code),
        f"  log   {run['target']}:{run['directory']} (attempt {run['attempt']})",
        f"  look  orch logs {run['id']}; orch show {run['id']}",
    ]
    if restart := run.get("restart"):
        lines.insert(1, f"  then  {output.harmless(restart['said'])}")
    if lost := lost_text(run):
        lines.insert(1, f"  output  {lost}")
    if run["incident"]:
        lines[-1] += f"; orch explain {run['incident']}"
    return lines


def matcher(pattern: str | None, rank: int | None = None) -> Callable[[str], bool]:
    """Whether a line is wanted; ValueError, with the reason, where the pattern is none."""
    compiled = read_pattern(pattern) if pattern else None

    def wanted(line: str) -> bool:
        # What a line's prefix says is read without its colours.
        said = rank is None or read_prefix(printable(line)).rank == rank
        return said and (compiled is None or compiled.search(line) is not None)

    return wanted
