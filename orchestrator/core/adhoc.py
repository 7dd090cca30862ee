"""A TARGET as a person writes it: a name of the inventory, or its place in one word.

    root@10.1.2.6/pct:200     container 200 of that host, as `pct` knows it
    pve1/lxc:web              a container of a host that the inventory or ~/.ssh/config names
    gpu3, root@10.1.2.6:2222  the host itself
    local, local/docker:web   this machine

Owns the grammar. Reads no file: the caller gives the inventory and the aliases of ~/.ssh/config.
"""

import re
from collections.abc import Collection

from orchestrator.core.errors import UsageError
from orchestrator.core.model import Host, Inventory, Target
from orchestrator.core.runtimes import RUNTIMES

LOCAL = "local"

_HOST = re.compile(
    r"(?:(?P<user>[A-Za-z0-9_][A-Za-z0-9_.-]*)@)?"
    r"(?P<name>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_][A-Za-z0-9_.-]*)"
    r"(?::(?P<port>[0-9]{1,5}))?"
)
_INSIDE = re.compile(r"(?P<runtime>[a-z]+):(?P<container>[A-Za-z0-9_][A-Za-z0-9_.-]*)")

_FORMS = "Write USER@HOST, an alias of ~/.ssh/config, HOST/pct:ID, or local."


def find_target(text: str, inventory: Inventory | None, aliases: Collection[str]) -> Target:
    """The target that a person means; UsageError where there is none of that name.

    A bare word must be known to the inventory or be one of `aliases`, so that a misspelt name is
    not taken for a machine; without an inventory ssh is left to resolve it.
    """
    if inventory is not None and text in inventory.targets:
        return inventory.targets[text]
    place, slash, inside = text.partition("/")
    runtime, container = _inside(text, inside) if slash else ("none", None)
    host = _host(text, place, inventory, aliases, bare=not slash)
    return Target(name=text, host=host, runtime=runtime, container=container)


def find_host(text: str, inventory: Inventory | None, aliases: Collection[str]) -> Host:
    """The host that a person means, by its own name or by that of a target on it."""
    if inventory is not None and text in inventory.hosts:
        return inventory.hosts[text]
    return find_target(text, inventory, aliases).host


def split_place(text: str) -> tuple[str | None, str]:
    """TARGET and path of `TARGET:PATH`; None and the path where that is of this machine.

    What begins with `/`, `.` or `~` is of this machine, a colon in it or not.
    """
    if text[:1] in {"/", ".", "~", ""} or ":" not in text:
        return None, text
    for sign in (":/", ":~", ":."):
        target, found, path = text.partition(sign)
        if found:
            return target, sign[1:] + path
    target, _, path = text.rpartition(":")
    return target, path


def _inside(text: str, inside: str) -> tuple[str, str]:
    found = _INSIDE.fullmatch(inside)
    if found is None or RUNTIMES.get(found["runtime"]) is None:
        known = ", ".join(name for name, runtime in RUNTIMES.items() if runtime is not None)
        raise UsageError(
            f"{text}: what follows the / is no container.",
            remedy=f"Write RUNTIME:CONTAINER, with one of {known}.",
        )
    return found["runtime"], found["container"]


def _host(
    text: str, place: str, inventory: Inventory | None, aliases: Collection[str], *, bare: bool
) -> Host:
    if inventory is not None and place in inventory.hosts:
        return inventory.hosts[place]
    if place == LOCAL:
        return Host(name=LOCAL, transport="local")
    found = _HOST.fullmatch(place)
    port = int(found["port"]) if found and found["port"] else None
    if found is None or (port is not None and not 0 < port < 65536):
        raise UsageError(f"{text} is no target.", remedy=_FORMS)
    plain = bare and found["user"] is None and port is None and "." not in found["name"]
    if plain and inventory is not None and place not in aliases:
        there = ", ".join(sorted(inventory.targets)) or "none"
        raise UsageError(f"The inventory has no target {text}. It has {there}.", remedy=_FORMS)
    return Host(name=place, hostname=found["name"].strip("[]"), user=found["user"], port=port)
