"""By which restart policy a run waits for its next attempt, so that an edit is always noticed.

Owns what is kept of it in the store. Must not: weigh; decide/ does.
"""

import json
from dataclasses import asdict, dataclass
from typing import Any

from orchestrator.core.decide.decision import RunView
from orchestrator.core.model import Job, RestartPolicy, Run, RunState
from orchestrator.store.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighing:
    """The policies of runs in a back-off, as they were when it was last judged by them."""

    store: Store

    async def keep(self, run: Run, job: Job) -> None:
        """A run was judged by the policy of a job."""
        if run.state is RunState.BACKOFF:
            await self.store.values.set(_key(run), _plain(job.restart))

    async def forget(self, run: Run) -> None:
        """A run has ended, and waits for no attempt any more."""
        await self.store.values.forget(_key(run))

    async def is_due(self, view: RunView, job: Job) -> bool:
        """Whether the policy was edited while nobody who drives the run's host looked.

        Of a run whose daemon died right after it had judged, nothing is kept yet: the policy of
        now is taken for the one that it was judged by, else every daemon would judge it again.
        """
        if view.run.state is not RunState.BACKOFF:
            return False
        judged_by = await self.store.values.get(_key(view.run))
        if judged_by is None:
            await self.keep(view.run, job)
            return False
        return bool(judged_by != _plain(job.restart))


def _key(run: Run) -> str:
    return f"weighed.{run.id}"


def _plain(policy: RestartPolicy) -> Any:
    """As the store gives it back."""
    return json.loads(json.dumps(asdict(policy)))
