"""A person's word that ends a run, waited for until the run has ended and its GPUs are free.

Owns that wait, and which hosts a stop is under way on: they are not given up meanwhile. Must not:
decide; the supervisor of the run does.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from orchestrator.clock import Clock
from orchestrator.core.decide.inputs import StopAsked
from orchestrator.core.errors import NotDriven, UsageError
from orchestrator.core.model import LinkState, Run, RunState
from orchestrator.daemon.fleet import Fleet
from orchestrator.supervise import Supervisor

LOOKS_EVERY_S = 0.2
MET_WITHIN_S = 5.0

_HEARD = frozenset({RunState.STOPPING, RunState.STOPPED})

Ending = Mapping[str, Any]
"""Who was ended by a stop, and when the GPUs were free."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopping:
    """Stops of runs, told to the supervisors and waited for."""

    clock: Clock
    fleet: Fleet
    drives: Callable[[str], bool]
    members: Mapping[str, Supervisor]
    tasks: Mapping[str, "asyncio.Task[Ending | None]"]
    """Of the members, and of those whose runs have ended."""
    take_up: Callable[[], Awaitable[None]]
    _under_way: list[Run] = field(default_factory=list)

    def on(self, host: str) -> tuple[str, ...]:
        """The runs of a host that somebody waits for the end of."""
        return tuple(run.id for run in self._under_way if run.host == host)

    async def stop(self, run: Run, grace_s: float, *, waits: bool = True) -> dict[str, Any] | None:
        """End the run; answers who was ended and when its GPUs were free.

        None, where it does not wait for a target that is away: it is ended there once it is back.
        """
        with self._stopping(run):
            if run.id not in self.members:
                await self.take_up()  # the inventory may have its target again
            member = self.members.get(run.id)
            if member is None:
                raise self._unsupervised(run)
            member.tell(StopAsked(grace_s=grace_s))
            return await self._ended(run, waits=waits)

    @contextmanager
    def _stopping(self, run: Run) -> Iterator[None]:
        self._under_way.append(run)
        try:
            yield
        finally:
            self._under_way.remove(run)

    async def _ended(self, run: Run, *, waits: bool) -> dict[str, Any] | None:
        task, since = self.tasks[run.id], self.clock.monotonic()
        while not (await asyncio.wait({task}, timeout=None if waits else LOOKS_EVERY_S))[0]:
            if self._is_heard(run) and self._is_away(run, since):
                return None
        if not task.cancelled():
            return dict(task.result() or {"ended": [], "remaining": []})
        await self.take_up()  # which waits for what is under way: another link, or another daemon
        if self.tasks.get(run.id, task) is task or not self._is_heard(run):
            raise _let_go(run)
        return await self._ended(run, waits=waits)

    def _is_heard(self, run: Run) -> bool:
        member = self.members.get(run.id)
        return member is not None and member.view.run.state in _HEARD

    def _is_away(self, run: Run, since: float) -> bool:
        """Whether a target cannot be reached; one that was never seen is given time to be met."""
        link, seen_at = self.fleet.named(run.target)
        met = seen_at is not None or self.clock.monotonic() - since > MET_WITHIN_S
        return link is LinkState.UNREACHABLE and met

    def _unsupervised(self, run: Run) -> UsageError | NotDriven:
        if not self.drives(run.host):
            return _let_go(run)
        return UsageError(
            f"run {run.number} of {run.job} is not supervised: its target {run.target} is no "
            "longer in the inventory.",
            remedy=f"Put the target {run.target} back, and stop it then.",
        )


def _let_go(run: Run) -> NotDriven:
    return NotDriven(
        f"{run.host} went to another daemon while run {run.number} of {run.job} was being stopped.",
        target=run.host,
        remedy="`orch status` says what became of it; stop it once more.",
    )
