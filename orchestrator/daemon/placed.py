"""Where a live run is watched once the inventory says something else of its target.

Owns which edits mean the same place, reached in another way. Must not: ask a target.
"""

from dataclasses import replace

from orchestrator.core.model import Inventory, Target


def placed(was: Target, name: str, inventory: Inventory) -> Target:
    """The target of a run that was watched at `was`, by what `name`, its target, means now.

    A run stays where it was launched: looked for elsewhere it would be lost, and perhaps launched
    there a second time. A place that `name` means no more gets a name of its own, since the link
    of that name is to the other place; of its host the inventory may say something new.
    """
    now = inventory.targets.get(name)
    if now is not None and _place(now) == _place(was):
        return now
    host = inventory.hosts.get(was.host.name, was.host)
    at = was.name if now is None else f"{name} at {'/'.join(filter(None, _place(was)))}"
    return replace(was, name=at, host=host)


def _place(target: Target) -> tuple[str | None, ...]:
    """Where sessions are: another user, or another socket, has another tmux server."""
    host = target.host.name
    return host, target.runtime, target.container, target.user, target.tmux_socket
