"""Whether the hosts of containers can be entered themselves, and what is lost where not."""

from orchestrator.core.errors import Check
from orchestrator.core.model import LinkState, Target
from orchestrator.daemon.machines import Machine
from orchestrator.daemon.parts import Parts

REMEDY = (
    "Let orch run python3 on the host as root: only there GPU memory can be told by container,"
    " and Xid and OOM kills be read."
)


def machine_checks(parts: Parts) -> list[Check]:
    """One check for each host that has containers; none of them refuses anything."""
    hosts: dict[str, Target] = {}
    for target in parts.inventory.targets.values():
        if target.runtime != "none":
            hosts.setdefault(target.host.name, target)
    return [_check(name, parts.fleet.machine(target)) for name, target in hosts.items()]


def _check(name: str, machine: Machine) -> Check:
    if machine.link.state is LinkState.UNREACHABLE:
        why = str(machine.link.problem) if machine.link.problem else "it is being tried"
    else:
        why = machine.kernel.problem or ""
    return Check(
        name=f"host {name}",
        ok=not why,
        text=f"not seen in full: {why}" if why else "its GPUs and its kernel log are seen",
        remedy=REMEDY if why else None,
        critical=False,
    )
