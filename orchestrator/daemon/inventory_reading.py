"""Reads an inventory; for the daemon in a process of its own, which ends.

What reads YAML and checks shapes takes 13 MB, which a daemon needs for a tenth of a second.
"""

import copyreg
import os
import pickle
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from orchestrator.core.errors import InventoryError, UsageError
from orchestrator.core.model import Inventory

WITHIN_S = 60.0
READER = "orchestrator.core.inventory.build"
"""What takes the memory."""
_READ = "from orchestrator.daemon.inventory_reading import main; main()"
_TAKEN_BEFORE = "taken-before"


def read_inventory(
    path: Path, content: bytes | None = None, *, taken_before: bool = False
) -> Inventory:
    """The inventory in a file, or `content` in its place; InventoryError with every problem.

    Of one that was taken before no rule is asked that an older orch did not have.
    """
    from orchestrator.core.inventory.build import parse_inventory

    return parse_inventory(
        path.read_bytes() if content is None else content,
        path=str(path),
        folder=str(path.parent),
        exists=lambda folder: Path(folder).is_dir(),
        home=str(Path.home()),
        check_rule=_check_rule,
        taken_before=taken_before,
    )


def _check_rule(rule: Mapping[str, Any]) -> None:
    # It loads all of detection: a third of the reading.
    from orchestrator.core.detect.proving import read_rule

    read_rule(rule)


def read_content(path: Path) -> bytes:
    """The bytes of the file; UsageError where it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as exc:
        raise _not_read(path, exc.strerror or str(exc)) from exc


def read_apart(
    path: Path, content: bytes | None = None, *, taken_before: bool = False
) -> Inventory:
    """As `read_inventory`, with nothing of what it takes left behind here, unless it is here."""
    content = read_content(path) if content is None else content
    if READER in sys.modules:
        return read_inventory(path, content, taken_before=taken_before)
    argv = [sys.executable, "-P", "-c", _READ, str(path), *([_TAKEN_BEFORE] * taken_before)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    try:
        done = subprocess.run(
            argv, input=content, capture_output=True, env=env, timeout=WITHIN_S, check=True
        )
    except subprocess.CalledProcessError as exc:
        last = exc.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise _not_read(path, last) from exc
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise _not_read(path, str(exc)) from exc
    found = pickle.loads(done.stdout)  # noqa: S301  our own program wrote it
    if not isinstance(found, Inventory):
        raise InventoryError(found)
    return found


def _not_read(path: Path, why: str) -> UsageError:
    return UsageError(f"{path} could not be read: {why}.", remedy="Save it again to try anew.")


def main() -> None:
    """Read what comes on stdin, and say what it is in a form that the daemon takes."""
    try:
        found: object = read_inventory(
            Path(sys.argv[1]),
            sys.stdin.buffer.read(),
            taken_before=_TAKEN_BEFORE in sys.argv[2:],
        )
    except InventoryError as exc:
        found = exc.problems
    pickler = pickle.Pickler(sys.stdout.buffer)
    # The nouns are frozen, their mappings too, which pickle does not know by itself.
    pickler.dispatch_table = {
        **copyreg.dispatch_table,
        MappingProxyType: lambda mapping: (_frozen, (dict(mapping),)),
    }
    pickler.dump(found)


def _frozen(mapping: dict[object, object]) -> Mapping[object, object]:
    return MappingProxyType(mapping)
