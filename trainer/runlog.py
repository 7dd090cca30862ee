"""The one way out: JSON lines for the daemon, readable lines for a person.

It owns the shape of metrics.jsonl (docs/run-contract.md) and the terminal's lines. It
decides nothing.
"""

import json
import math
import sys
import time
from pathlib import Path
from typing import TextIO


class RunLog:
    """Writes metrics.jsonl in `folder`, if there is one, and prints to the terminal.

    A rank other than the first is silent.
    """

    def __init__(self, folder: Path | None, total_steps: int, *, silent: bool = False) -> None:
        self._file: TextIO | None = None
        self._total_steps = total_steps
        self._silent = silent
        if folder is not None and not silent:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = (folder / "metrics.jsonl").open("a", encoding="utf-8", buffering=1)

    def record(self, phase: str, step: int, **values: float | str | None) -> None:
        """Append one JSON line; numbers that JSON cannot hold become null."""
        if self._file is None:
            return
        line: dict[str, object] = {
            "t": round(time.time(), 3), "step": step, "total_steps": self._total_steps,
            "phase": phase,
        }  # fmt: skip
        for key, value in values.items():
            broken = isinstance(value, float) and not math.isfinite(value)
            line[key] = None if broken else value
        self._file.write(json.dumps(line) + "\n")

    def say(self, text: str) -> None:
        """Print one line for a person."""
        if not self._silent:
            print(text, flush=True)

    def warn(self, text: str) -> None:
        """Print one diagnostic line to stderr."""
        if not self._silent:
            print(text, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Close metrics.jsonl."""
        if self._file is not None:
            self._file.close()


def step_line(
    step: int, total: int, *, loss: float, speed: float, lr: float, acceptance: float | None
) -> str:
    """The terminal's line of a training step."""
    walked = f"{acceptance:.2f}" if acceptance is not None else "-"
    return (
        f"step {step}/{total}  loss {loss:.4f}  tok/s {speed:,.0f}  phase train  "
        f"acceptance {walked}  lr {lr:.2e}"
    )
