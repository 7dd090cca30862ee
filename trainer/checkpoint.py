"""Checkpoints: written whole or not at all, found newest valid first.

A checkpoint is a folder step-NNNNNNNN with state.pt, config.json and manifest.json (step,
size and SHA-256 of state.pt). It is made under another name, synced and renamed. It owns
these files and not what is in the state.
"""

import errno
import hashlib
import json
import math
import os
import shutil
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import torch


class CheckpointError(RuntimeError):
    """A checkpoint that cannot be written or used; its text names the path."""


def save(
    folder: Path, step: int, state: dict[str, Any], config: dict[str, Any], keep: int,
    acceptance: float = math.nan,
) -> Path:  # fmt: skip
    """Write the checkpoint of `step` atomically and remove all but the newest `keep`.

    The one with the longest `acceptance` stays too. Raises CheckpointError, with the earlier
    checkpoints untouched.
    """
    final = folder / f"step-{step:08d}"
    draft = folder / f".{final.name}.{os.getpid()}"
    try:
        draft.mkdir(parents=True)
        _write(draft / "state.pt", lambda file: torch.save(state, file))
        digest, size = _digest(draft / "state.pt")
        measured = acceptance if math.isfinite(acceptance) else None
        manifest = {"step": step, "sha256": digest, "bytes": size, "acceptance": measured}
        _write(draft / "config.json", lambda file: file.write(_json(config)))
        _write(draft / "manifest.json", lambda file: file.write(_json(manifest)))
        _sync_folder(draft)
        if final.exists():
            shutil.rmtree(final)
        draft.rename(final)
        _sync_folder(folder)
    except (OSError, RuntimeError) as error:
        shutil.rmtree(draft, ignore_errors=True)
        full = isinstance(error, OSError) and error.errno == errno.ENOSPC
        remedy = "the disk is full: free some space" if full else str(error)
        raise CheckpointError(f"{final}: not saved: {remedy}; earlier ones are intact") from error
    kept = best(folder)
    for old in _found(folder)[:-keep]:
        if old != kept:
            shutil.rmtree(old, ignore_errors=True)
    return final


def best(folder: Path) -> Path | None:
    """The checkpoint with the longest acceptance, the newest of equals; None: none measured."""
    measured = [(_acceptance(path), path) for path in _found(folder)]
    found = [(value, path) for value, path in measured if value is not None]
    return max(found)[1] if found else None


def _acceptance(path: Path) -> float | None:
    try:
        value = json.loads((path / "manifest.json").read_text()).get("acceptance")
    except (OSError, ValueError, AttributeError):
        return None  # damaged: newest_valid says so
    return float(value) if isinstance(value, int | float) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """A checkpoint that was written."""

    path: Path
    step: int
    seconds: float
    """How long writing took, beside training."""
    stood_still: float
    """How long training waited for the copy, in seconds."""


class Saver:
    """Saves in a thread: training stands still only while the state is copied."""

    def __init__(self, folder: Path, keep: int) -> None:
        self._folder, self._keep = folder, keep
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="save")
        self._writing: Future[Saved] | None = None

    def begin(
        self, step: int, state: dict[str, Any], config: dict[str, Any], acceptance: float
    ) -> None:
        """Copy `state` and begin to write it; the save before it must be finished."""
        assert self._writing is None
        began = time.monotonic()
        copy = _copied(state)
        stood_still = time.monotonic() - began

        def write() -> Saved:
            began = time.monotonic()
            path = save(self._folder, step, copy, config, self._keep, acceptance)
            seconds = time.monotonic() - began
            return Saved(path=path, step=step, seconds=seconds, stood_still=stood_still)

        self._writing = self._thread.submit(write)

    def finish(self) -> Saved | None:
        """Wait for the save that was begun last; None where there is none.

        Raises CheckpointError.
        """
        writing, self._writing = self._writing, None
        return writing.result() if writing is not None else None

    def close(self) -> None:
        """End the thread, once it has written what it has."""
        self._thread.shutdown()


def _copied(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().to("cpu", copy=True)
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value


def newest_valid(folder: Path, warn: Callable[[str], None]) -> Path | None:
    """The newest checkpoint whose state has the size and sum of its manifest.

    A damaged one is skipped with a word to `warn`.
    """
    for path in reversed(_found(folder)):
        try:
            manifest = json.loads((path / "manifest.json").read_text())
            if _digest(path / "state.pt") == (manifest["sha256"], manifest["bytes"]):
                return path
        except (OSError, ValueError, KeyError, TypeError):
            pass  # said below, as for a wrong sum
        warn(
            f"checkpoint {path} is damaged (its sum differs from its manifest); trying an older one"
        )
    return None


def load(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The state and the configuration saved at `path`."""
    state = torch.load(path / "state.pt", map_location="cpu", weights_only=True)
    return state, json.loads((path / "config.json").read_text())


def any_in(folder: Path) -> bool:
    """Whether `folder` holds a checkpoint, damaged or not."""
    return bool(_found(folder))


def clear(folder: Path) -> None:
    """Remove every checkpoint in `folder`."""
    for path in _found(folder):
        shutil.rmtree(path)


def _found(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("step-*") if path.is_dir())


def _json(values: dict[str, Any]) -> bytes:
    return json.dumps(values, indent=1).encode() + b"\n"


class _Watched:
    """A file that keeps the error of a write: torch.save says only that a position was wrong."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.error: OSError | None = None

    def write(self, content: bytes) -> int:
        try:
            return self._file.write(content)
        except OSError as error:
            self.error = error
            raise

    def flush(self) -> None:
        self._file.flush()


def _write(path: Path, fill: Callable[[Any], object]) -> None:
    with path.open("wb") as file:
        watched = _Watched(file)
        try:
            fill(watched)
        except RuntimeError as error:
            raise watched.error or error from error
        file.flush()
        os.fsync(file.fileno())


def _digest(path: Path) -> tuple[str, int]:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest(), path.stat().st_size


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
