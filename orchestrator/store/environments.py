"""What each attempt found around it, at its launch and at its end, and the job as it was then.

Must not: compare two of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import delete, select

from orchestrator.clock import Clock
from orchestrator.store import tables
from orchestrator.store.dialects import insert
from orchestrator.store.rows import plain
from orchestrator.store.worker import Worker


class Moment(StrEnum):
    """When it was looked at."""

    LAUNCH = "launch"
    END = "end"


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """One look at what an attempt found around it."""

    run: str
    attempt: int
    moment: Moment
    at: float
    fingerprint: Mapping[str, Any]
    """deploy/environment.py has its keys; only `error` where the target could not be asked."""
    job: Mapping[str, Any]
    """The job's configuration at that time."""


class Environments:
    """One row for each attempt and moment; the first one stays."""

    def __init__(self, worker: Worker, clock: Clock) -> None:
        self._worker = worker
        self._clock = clock

    async def add(
        self,
        run: str,
        attempt: int,
        moment: Moment,
        fingerprint: Mapping[str, Any],
        job: Mapping[str, Any],
    ) -> None:
        """Keep a look."""
        values = {
            "run": run,
            "attempt": attempt,
            "moment": moment.value,
            "at": self._clock.now(),
            "fingerprint": plain(fingerprint),
            "job": plain(job),
        }
        table = tables.environments
        await self._worker.call(
            lambda c: c.execute(insert(c, table).values(values).on_conflict_do_nothing())
        )

    async def forget(self, run: str) -> None:
        """Drop the looks of a run."""
        change = delete(tables.environments).where(tables.environments.c.run == run)
        await self._worker.call(lambda c: c.execute(change))

    async def of(self, run: str) -> tuple[Surroundings, ...]:
        """The looks of a run, oldest first."""
        columns = tables.environments.c
        query = select(tables.environments).where(columns.run == run).order_by(columns.at)
        rows = await self._worker.call(lambda c: c.execute(query).mappings().all())
        return tuple(Surroundings(**{**row, "moment": Moment(row["moment"])}) for row in rows)
