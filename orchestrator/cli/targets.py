"""The words of a command -> a target or a host: by the inventory where there is one, else ad hoc.

Reads the inventory and ~/.ssh/config; asks no daemon.
"""

import argparse
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from orchestrator.cli.reach import location_of
from orchestrator.core.adhoc import find_host, find_target
from orchestrator.core.errors import UsageError
from orchestrator.core.inventory.build import parse_inventory
from orchestrator.core.model import Host, Inventory, Target
from orchestrator.core.parse.ssh_config import parse_ssh_config

MOST_INCLUDES = 64


def target_of(options: argparse.Namespace, text: str) -> Target:
    """The target that TARGET names; UsageError where there is none."""
    return find_target(text, inventory_of(options), ssh_aliases())


def where(options: argparse.Namespace, run: Mapping[str, Any]) -> Target:
    """The target at which a run is, which may not be where its target's name leads by now."""
    if (place := run.get("place")) is not None:
        return Target.from_json(place)
    return target_of(options, run["target"])


def host_of(options: argparse.Namespace, text: str) -> Host:
    """The host that HOST names, or the one of a target; UsageError where there is none."""
    return find_host(text, inventory_of(options), ssh_aliases())


def inventory_of(options: argparse.Namespace) -> Inventory | None:
    """The inventory that the options mean; None where none was named and none is near.

    UsageError where a named one is not there; InventoryError with all its faults.
    """
    try:
        path = location_of(options).inventory
    except UsageError:
        if named(options):
            raise
        return None
    return parse_inventory(
        path.read_bytes(),
        path=str(path),
        folder=str(path.parent),
        exists=lambda folder: Path(folder).is_dir(),
        home=str(Path.home()),
    )


def named(options: argparse.Namespace) -> bool:
    """Whether --config or ORCH_CONFIG says which inventory."""
    return bool(getattr(options, "config", None) or os.environ.get("ORCH_CONFIG"))


def ssh_aliases() -> tuple[str, ...]:
    """Hosts that ~/.ssh/config and the files that it includes name."""
    folder = Path.home() / ".ssh"
    return tuple(dict.fromkeys(_aliases(folder, folder / "config", set())))


def _aliases(folder: Path, path: Path, seen: set[Path]) -> Iterator[str]:
    if path in seen or len(seen) > MOST_INCLUDES:
        return
    seen.add(path)
    try:
        found = parse_ssh_config(path.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return
    yield from found.aliases
    for include in found.includes:
        pattern = Path(include).expanduser()
        place, names = (
            (Path("/"), pattern.relative_to("/"))
            if pattern.is_absolute()
            else (
                folder,
                pattern,
            )
        )
        for path_included in sorted(place.glob(str(names))):
            yield from _aliases(folder, path_included, seen)
