"""A person's word that ends a run, waited for until the run has ended and its GPUs are free.

Owns that wait, which hosts a stop is under way on (they are not given up meanwhile), and the word
itself until it is decided on: it is stored first, so that a daemon that dies of it leaves it to the
next one. Must not: decide; the supervisor of the run does.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from orchestrator.clock import Clock
from orchestrator.core.decide.inputs import StopAsked
from orchestrator.core.errors import NotDriven, OrchError, UsageError
from orchestrator.core.model import LinkState, Run, RunState
from orchestrator.daemon.fleet import Fleet
from orchestrator.store.store import Store
from orchestrator.supervise import Supervisor

LOOKS_EVERY_S = 0.2
MET_WITHIN_S = 5.0
HEARD_WITHIN_S = 30.0

Ending = Mapping[str, Any]
"""Who was ended by a stop, and when the GPUs were free."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopping:
    """Stops of runs, told to the supervisors and waited for."""

    clock: Clock
    store: Store
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
            word = StopAsked(grace_s=grace_s)
            try:
                await keep(self.store, run, word)
            except NotDriven as error:
                raise _not_ours(run) from error
            # Another supervisor may have its place by now, and has not read the word.
            self.members.get(run.id, member).tell(word)
            return await self._ended(run, word, waits=waits)

    @contextmanager
    def _stopping(self, run: Run) -> Iterator[None]:
        self._under_way.append(run)
        try:
            yield
        finally:
            self._under_way.remove(run)

    async def _ended(self, run: Run, word: StopAsked, *, waits: bool) -> dict[str, Any] | None:
        task, since = self.tasks.get(run.id), self.clock.monotonic()
        if task is None:
            raise _let_go(run)  # while the word was being kept
        while not (await asyncio.wait({task}, timeout=None if waits else LOOKS_EVERY_S))[0]:
            if self._is_heard(run):
                if self._is_away(run, since):
                    return None
            elif self.clock.monotonic() - since > HEARD_WITHIN_S:
                raise _undecided(run)
        if not task.cancelled():
            return dict(task.result() or {"ended": [], "remaining": []})
        await self.take_up()  # which waits for what is under way: another link, or another daemon
        if self.tasks.get(run.id, task) is task:
            raise _let_go(run)
        member = self.members.get(run.id)
        if member is not None and not self._is_heard(run):
            member.tell(word)  # to be told twice is to be told once
        return await self._ended(run, word, waits=waits)

    def _is_heard(self, run: Run) -> bool:
        """Whether the stop was decided on, or the run is over anyhow."""
        if (member := self.members.get(run.id)) is None:
            return False
        state = member.view.run.state
        return state is RunState.STOPPING or state.ended

    def _is_away(self, run: Run, since: float) -> bool:
        """Whether a target cannot be reached; one that was never seen is given time to be met."""
        member = self.members.get(run.id)
        # It may be watched where its target was before an edit.
        at = run.target if member is None else member.job.target_named(run.target).name
        link, seen_at = self.fleet.named(at)
        met = seen_at is not None or self.clock.monotonic() - since > MET_WITHIN_S
        return link is LinkState.UNREACHABLE and met

    def _unsupervised(self, run: Run) -> UsageError | NotDriven:
        if not self.drives(run.host):
            return _not_ours(run)
        return UsageError(
            f"run {run.number} of {run.job} is not supervised: its target {run.target} is no "
            "longer in the inventory.",
            remedy=f"Put the target {run.target} back, and stop it then.",
        )


async def keep(store: Store, run: Run, word: StopAsked) -> None:
    """Store that a run is to be stopped, which nobody takes back.

    NotDriven where another daemon took the host over: it has read what was kept for it by then.
    """
    await store.values.set(_key(run), {"grace_s": word.grace_s}, host=run.host)


async def kept(store: Store, runs: Iterable[Run]) -> dict[str, StopAsked]:
    """The words about these runs, which end them unless they have ended, by run.

    One that was decided on is among them until then: to be told twice is to be told once, and a
    run that is being stopped already may be so by its policy, which launches it again.
    """
    open_to_it = [run for run in runs if not run.state.ended]
    known = await store.values.several([_key(run) for run in open_to_it])
    return {
        run.id: StopAsked(grace_s=float(known[_key(run)]["grace_s"]))
        for run in open_to_it
        if _key(run) in known
    }


def _key(run: Run) -> str:
    return f"stop.{run.id}.{run.uid}"


def _undecided(run: Run) -> OrchError:
    return OrchError(
        f"The stop of run {run.number} of {run.job} is kept; it is not decided on yet, since its "
        "supervisor cannot be made.",
        remedy=f"Leave the daemon running, its log says what it waits for; `orch show {run.id}` "
        "says when the run has ended.",
    )


def _not_ours(run: Run) -> NotDriven:
    return NotDriven(
        f"{run.host} went to another daemon before run {run.number} of {run.job} was stopped.",
        target=run.host,
        remedy="`orch daemon status` says to which one; stop it once more.",
    )


def _let_go(run: Run) -> NotDriven:
    return NotDriven(
        f"{run.host} went to another daemon while run {run.number} of {run.job} was being stopped.",
        target=run.host,
        remedy="The stop is kept, and done by the daemon that drives the host next; "
        f"`orch show {run.id}` says when the run has ended.",
    )
