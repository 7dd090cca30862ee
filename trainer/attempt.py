"""How this attempt begins and when it must stop: folders, resuming, signals.

It owns the launcher's variables and the refusal to mix two runs' checkpoints. It trains
nothing.
"""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from trainer import checkpoint
from trainer.config import Config, ConfigError
from trainer.configfile import dump

DEFAULT_SIGNAL = int(signal.SIGTERM)
"""Said by a process that stops because another one was told to."""


class StopError(Exception):
    """A signal asked for the end; carries its number."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


class StopFlag:
    """Remembers SIGTERM and Ctrl-C until the loop is between two steps."""

    def __init__(self) -> None:
        self._number = 0
        signal.signal(signal.SIGTERM, self._remember)
        signal.signal(signal.SIGINT, self._remember)

    def _remember(self, number: int, _frame: FrameType | None) -> None:
        self._number = number

    @property
    def number(self) -> int:
        """The signal that came, 0 before."""
        return self._number

    def check(self) -> None:
        """Raise StopError if a signal has come."""
        if self._number:
            raise StopError(self._number)


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """How this attempt begins."""

    folder: Path
    """Where checkpoints lie."""
    run_folder: Path | None
    """$ORCH_RUN_DIR."""
    resume: bool
    must_resume: bool
    """--resume was given: having nothing to resume from is an error."""
    fresh: bool
    profile: bool = False


def start_of(
    config: Config, *, resume: bool = False, fresh: bool = False, profile: bool = False
) -> Start:
    """Read the launcher's variables: ORCH_RUN_DIR, and ORCH_ATTEMPT above 1 resumes."""
    run = os.environ.get("ORCH_RUN_DIR")
    attempt = os.environ.get("ORCH_ATTEMPT", "1")
    base = Path(run) / "checkpoints" if run else Path("runs") / time.strftime("%Y%m%d-%H%M%S")
    return Start(
        folder=Path(config.checkpoint_dir) if config.checkpoint_dir else base,
        run_folder=Path(run) if run else None,
        resume=resume or (attempt.isdigit() and int(attempt) > 1),
        must_resume=resume,
        fresh=fresh,
        profile=profile,
    )


def resume_from(start: Start, warn: Callable[[str], None]) -> Path | None:
    """The checkpoint to go on from; None: begin at step 0.

    Raises ConfigError where --resume finds none, or a beginning would meet another run's.
    """
    if start.fresh:
        checkpoint.clear(start.folder)
    if start.resume:
        path = checkpoint.newest_valid(start.folder, warn)
        if path is None and start.must_resume:
            raise ConfigError(
                f"--resume: {start.folder} holds no valid checkpoint; leave --resume out to start"
            )
        return path
    if checkpoint.any_in(start.folder):
        raise ConfigError(
            f"checkpoint_dir: {start.folder} already holds checkpoints; go on with --resume, "
            "or --fresh removes them"
        )
    return None


def check_same(config: Config, saved: dict[str, Any], path: Path) -> None:
    """Raise ConfigError where a checkpoint's configuration is of another model or order."""
    for part in ("target", "drafter", "corpus", "seed"):
        if saved[part] != _plain(dump(config)[part]):
            raise ConfigError(
                f"{part}: differs from that of {path}; resume with the saved one "
                f"({path / 'config.json'}), or start anew with --fresh"
            )
    if saved["optim"].get("kind", config.optim.kind) != config.optim.kind:
        raise ConfigError(
            f"optim.kind: {path} holds the state of {saved['optim']['kind']}; resume with it, or "
            "start anew with --fresh"
        )


def _plain(value: Any) -> Any:
    """As JSON gives it back: tuples are lists."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return list(value) if isinstance(value, tuple) else value
