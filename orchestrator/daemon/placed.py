"""Where a run is watched once the inventory says something else of its target.

Owns which edits mean the same place, reached in another way. Must not: ask a target.
"""

from dataclasses import replace

from orchestrator.core.model import Host, Inventory, Run, Target


def where(run: Run, inventory: Inventory) -> Target | None:
    """The target at which a run is, as the inventory has it now reached.

    Of a run that an older orch stored it is what its target means now; None where that is nothing.
    """
    was = run.whereabouts or inventory.targets.get(run.target)
    return None if was is None else placed(was, run.target, inventory)


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


def stays(was: Target, name: str) -> Target:
    """The target of a run that is not where its host's name leads now: its address of before."""
    address = ":".join(filter(None, _address(was.host)[1:3]))
    return replace(was, name=f"{name} at {'/'.join(filter(None, (address, *_place(was)[1:])))}")


def is_elsewhere(was: Target, now: Target) -> bool:
    """Whether a run that was last seen at `was` may not be where `now` leads.

    An address that was edited may be a new one of the same machine, or another machine's.
    """
    return _address(was.host) != _address(now.host)


def _place(target: Target) -> tuple[str | None, ...]:
    """Where sessions are: another user, or another socket, has another tmux server."""
    host = target.host.name
    return host, target.runtime, target.container, target.user, target.tmux_socket


def _address(host: Host) -> tuple[str | None, ...]:
    """Which machine a host is, as far as the inventory says it."""
    port = None if host.port is None else str(host.port)
    return host.transport, host.hostname or host.name, port, host.proxy_jump
