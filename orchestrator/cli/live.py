"""The live view of `orch run` on a terminal: lines scroll above, bar and status stay below."""

import sys
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from orchestrator.api.client import Client
from orchestrator.cli import output
from orchestrator.cli.status import gpu_summary
from orchestrator.core.errors import OrchError

_REFRESHES_PER_S = 4
_GPUS_EVERY_S = 2.0


class LiveScreen:
    """Used as a context; the status line goes when the context ends."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._gpus, self._gpus_at = "", 0.0
        self._console = Console(file=sys.stdout, highlight=False, soft_wrap=True)
        self._run: Mapping[str, Any] | None = None
        self._unfinished = ""
        self._live = Live(
            get_renderable=self._below,
            console=self._console,
            refresh_per_second=_REFRESHES_PER_S,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=True,
        )

    def __enter__(self) -> "LiveScreen":
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.stop()

    def line(self, text: str) -> None:
        """Print a line above the status."""
        self._console.print(Text.from_ansi(text))

    def unfinished(self, text: str) -> None:
        """Keep a line that is still drawn over between the lines and the status."""
        self._unfinished = text

    def update(self, run: Mapping[str, Any]) -> None:
        """Take the newest view of the run, and look at its GPUs now and then."""
        self._run = run
        if time.monotonic() - self._gpus_at > _GPUS_EVERY_S:
            self._gpus_at = time.monotonic()
            self._gpus = self._look_at_gpus(run["target"])

    def _look_at_gpus(self, target: str) -> str:
        try:
            targets = self._client.get("/v1/top")["targets"]
        except OrchError:
            return ""  # the stream of the run says what is wrong; this is only a status line
        found: list[dict[str, Any]] = next(
            (one["gpus"] for one in targets if one["name"] == target), []
        )
        return gpu_summary(found) if found else ""

    def _below(self) -> Group:
        """What is drawn anew all the time."""
        if not self._unfinished.strip():
            return Group(self._status())
        bar = Text.from_ansi(self._unfinished, no_wrap=True, overflow="ellipsis")
        return Group(bar, self._status())

    def _status(self) -> Text:
        run = self._run
        if run is None:
            return Text("...", style="dim")
        line = Text(no_wrap=True, overflow="ellipsis")
        line.append(f" {output.run_name(run)} ", style="reverse")
        line.append(f" {run['state']} ", style="bold")
        line.append("  ".join(status_facts(run, self._gpus, output.now())))
        return line


def status_facts(run: Mapping[str, Any], gpus: str, moment: float) -> list[str]:
    """Step, loss, speed, phase, GPUs and age of the output, as far as they are known."""
    metrics = run["metrics"]
    facts = [f"step {run['step']}"] if run["step"] is not None else []
    facts += [f"loss {output.number(run['loss'])}"] if run["loss"] is not None else []
    facts += [
        f"{output.number(metrics[key])} {unit}"
        for key, unit in (("steps_per_s", "steps/s"), ("tokens_per_s", "tokens/s"))
        if isinstance(metrics.get(key), int | float)
    ]
    facts += [output.harmless(run["phase"])] if run["phase"] else []
    facts += [gpus] if gpus else []
    facts.append(f"output {output.age(run['output_at'], moment)}")
    if run["link"] != "connected":
        facts.append(f"target {run['link']}, seen {output.age(run['seen_at'], moment)}")
    return facts
