"""The job that plays a simulation, as the crew needs it: known without the inventory's help.

A daemon that starts anew takes a simulation up like any other run.
"""

from dataclasses import replace
from types import MappingProxyType

from orchestrator.core.detect.signatures import Signature, load
from orchestrator.core.inventory.matches import SIMULATION
from orchestrator.core.model import Inventory, Job

JOB = SIMULATION
SESSION = "orch-simulation"
TITLE = "SIMULATION, nothing is wrong: "
_PLAY = ("sh", "-c", "printf '%s' \"$1\"; sleep 1; exit 1", JOB)
"""The sample is the run's own argument. The second lets the incident open while it lives."""


def simulated_job(inventory: Inventory) -> Job:
    """Plays what the run's argument holds, on whichever target the run is for."""
    return Job(
        name=JOB,
        targets=tuple(inventory.targets.values()),
        command=_PLAY,
        workdir="/tmp",  # noqa: S108  on the target, and there on every one
        session=SESSION,
    )


def with_simulation(inventory: Inventory) -> Inventory:
    """The inventory with the job that plays simulations."""
    if not inventory.targets or JOB in inventory.jobs:
        return inventory
    jobs = {**inventory.jobs, JOB: simulated_job(inventory)}
    return replace(inventory, jobs=MappingProxyType(jobs))


def simulated_rules(rules: tuple[Signature, ...]) -> tuple[Signature, ...]:
    """All signatures, each saying in its title and cause that it is only a simulation."""
    return tuple(
        replace(one, title=f"{TITLE}{one.title}", cause=f"This is a simulation. {one.cause}")
        for one in (*rules, *load())
    )
