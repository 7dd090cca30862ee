"""What is no longer as it was for a job's last run that finished, said before the next launch.

Owns which looks are held against each other: that of the good run's launch, and the one that the
release's deploy took. It asks the target for nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.core.errors import Check
from orchestrator.core.model import Job, Release, Run, RunState
from orchestrator.daemon.parts import Parts
from orchestrator.deploy import environment
from orchestrator.launch.preflight import LastGood
from orchestrator.store.environments import Moment

_SHOWN = 6
_PARTS = frozenset({"package", "python", "torch", "cuda", "driver", "kernel", "gpus"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Good:
    """The newest run of a job that finished, and what it found at its launch."""

    run: Run
    fingerprint: Mapping[str, Any]

    @property
    def listed(self) -> LastGood:
        """What preflight holds the packages of the job's own list against."""
        packages = self.fingerprint["packages"]
        versions = {name: str(one["version"]) for name, one in packages.items()}
        return LastGood(number=self.run.number, packages=versions)


async def last_good(parts: Parts, job: Job) -> Good | None:
    """The newest run that finished on the job's target, where its environment was noted."""
    for run in await parts.store.runs.list(job=job.name):
        if run.state is RunState.FINISHED and run.target == job.target.name:
            looks = await parts.store.environments.of(run.id)
            found = next((look for look in looks if look.moment is Moment.LAUNCH), None)
            if found is None or not found.fingerprint.get("packages"):
                return None
            return Good(run=run, fingerprint=found.fingerprint)
    return None


async def since(parts: Parts, job: Job, release: Release | None, good: Good | None) -> list[Check]:
    """A warning of what the look at the release's deploy found changed; none where nothing is.

    Packages of the job's own list are preflight's: it asks for them anew.
    """
    if good is None or release is None:
        return []
    await parts.looks.taken(job)
    releases, now = parts.store.releases, parts.clock.now()
    found = await releases.environment(job.name, job.target.name, release.digest, now)
    if found is None or found["error"] or found["at"] <= good.fingerprint["at"]:
        return []
    asked_anew = {name.lower() for name in job.preflight.packages}
    told = [
        str(one)
        for one in environment.diff(good.fingerprint, found)
        if one.part in _PARTS and not (one.part == "package" and one.name in asked_anew)
    ]
    if not told:
        return []
    more = f" and {len(told) - _SHOWN} more" if len(told) > _SHOWN else ""
    number = good.run.number
    return [
        Check(
            name="drift",
            ok=False,
            critical=False,
            text=f"since run {number}, the last that finished: {', '.join(told[:_SHOWN])}{more}",
            remedy=f"If the run fails, go back to what run {number} had (`orch diff`).",
        )
    ]
