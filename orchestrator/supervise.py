"""THE PIPELINE for one run: launch, observe, detect, decide, act; from the store's word to its end.

    deploy    before the run exists (daemon/launching.py); `run.release` names what it left there
    launch    Actor         launch/session.py starts the relay in tmux, once however often asked
    observe   _observe      observe/follow.py gives every byte, the metrics and the exit record
    detect    Reader        core/detect finds what went wrong, and says the verdict at the end
              Witness       core/watch finds what the log does not say: kernel, GPUs, the clock
    decide    _decide       core/decide says what follows; the store keeps it, and then
    act       Actor         does the actions, each marked when it is done

It must not parse, match or query: the stages do. A daemon killed anywhere in here starts again
from what the store holds.
"""

import asyncio

from orchestrator.acting import Actor, Stages
from orchestrator.core.decide.decision import RunView, after
from orchestrator.core.decide.incidents import told_of
from orchestrator.core.decide.inputs import FindingSeen, Input, Launched, VerdictReached
from orchestrator.core.decide.lifecycle import decide
from orchestrator.core.detect.signatures import load, meant
from orchestrator.core.errors import Unreachable
from orchestrator.core.events import EndTold, Exited, RelayGone, SessionChanged
from orchestrator.core.findings import Finding
from orchestrator.core.model import Job, RunState
from orchestrator.core.watch.advice import WATCHED
from orchestrator.core.watch.witnessed import with_kernel
from orchestrator.inbox import Inbox
from orchestrator.launch.session import attempt_dir, end_message
from orchestrator.link.calls import CallFailed
from orchestrator.observe.follow import follow
from orchestrator.reading import Reader
from orchestrator.store.environments import Moment
from orchestrator.witness import Witness

SIGNATURES = (*load(), *WATCHED)


class Supervisor:
    """Takes one run to its end."""

    def __init__(self, view: RunView, job: Job, stages: Stages) -> None:
        self.view = view
        self.job = job
        self.reader: Reader | None = None
        self.detached = False
        self._told: str | None = None
        self._awaited = False
        """Whether the relay waits to hear that its attempt's end is stored."""
        self._stages = stages
        self.inbox = Inbox()
        self.actor = Actor(job, stages, lambda: self.view.run, self.inbox.put)

    def tell(self, event: Input) -> None:
        """Something a person said; it is decided in turn."""
        self.inbox.tell(event)

    @property
    def deaf(self) -> bool:
        """Whether its link was closed: another one, on the link of now, is to take its place."""
        return self._stages.link.closed.is_set()

    async def supervise(self) -> None:
        """Until the run has ended and nothing is left to do; Unreachable where the link closes."""
        async with asyncio.TaskGroup() as tasks:
            hearing = tasks.create_task(self._until_deaf(), name=f"link {self.view.run.id}")
            seeking = tasks.create_task(self._stages.seek(), name=f"seek {self.view.run.id}")
            self.actor.act(await self._stages.store.actions.pending(self.view.run.id), tasks)
            observer = self._observe_if_launched(tasks)
            while not self.view.run.state.ended:
                event = await self.inbox.get()
                await self._decide(event, tasks)
                if isinstance(event, Launched):
                    observer = self._observe_if_launched(tasks)
                    self.actor.look(Moment.LAUNCH, tasks)
                if isinstance(event, VerdictReached):
                    self.actor.look(Moment.END, tasks)
                    if self._awaited:
                        self.actor.acknowledge(tasks)
            if observer is not None:
                observer.cancel()
            # A stop may outlast its run, while GPUs become free: it is marked done all the same.
            await self.actor.settled()
            while not self.inbox.empty():
                await self._decide(await self.inbox.get(), tasks)
            hearing.cancel()
            seeking.cancel()

    async def _until_deaf(self) -> None:
        """Until the link is closed, as that of a target that was edited: watches end unsaid."""
        target = self._stages.link.target.name
        await self._stages.link.closed.wait()
        raise Unreachable(f"The link to {target} was closed.", target=target)

    # --- observe and detect ----------------------------------------------------------------------

    def _observe_if_launched(self, tasks: asyncio.TaskGroup) -> asyncio.Task[None] | None:
        run = self.view.run
        present = [one for one in self.view.attempts if one.number == run.attempt]
        if not present or run.state.ended or run.state is RunState.BACKOFF:
            return None
        return tasks.create_task(self._observe(), name=f"observe {run.id}.{run.attempt}")

    async def _observe(self) -> None:
        run, stages = self.view.run, self._stages
        values = tuple(value for name in self.job.secrets for value in stages.every_value(name))
        reader = Reader(stages.store, run, self.job, stages.rules, stages.clock, values)
        reader.changed = lambda: stages.changed(run.id)
        reader.told_of = lambda: told_of(self.view.incidents)
        self.reader = reader
        witness = Witness(
            run, self._began_at(), self.job, stages.link, stages.clock, reader.vigil,
            stages.machine, stages.gpus, stages.evidence,
        )  # fmt: skip
        self._told, self._awaited = None, False
        known = reader.told_of()
        for finding in await asyncio.to_thread(reader.replay):
            if finding.fingerprint not in known:
                await self._found(finding)
        async with asyncio.TaskGroup() as tasks:
            heeding = tasks.create_task(self._heed(witness), name=f"witness {run.id}")
            await self._read(reader, witness)
            heeding.cancel()

    def _began_at(self) -> float:
        attempts = self.view.attempts
        begun = [one.started_at for one in attempts if one.number == self.view.run.attempt]
        return begun[-1] or 0.0 if begun else 0.0

    async def _heed(self, witness: Witness) -> None:
        async for finding in witness.findings():
            await self._found(finding)

    async def _read(self, reader: Reader, witness: Witness) -> None:
        run, stages = self.view.run, self._stages
        await stages.there()
        try:
            follower = await follow(
                stages.link,
                run,
                attempt_dir(run),
                clock=stages.clock,
                log_offset=reader.log_offset,
                metrics_offset=reader.metrics_offset,
                linked=self.job.adopts is not None and self.job.adopts.what.isdigit(),
            )
            async for event in reader.events(follower):
                match event:
                    case Finding():
                        await self._found(event)
                        await reader.persist()
                    case Exited() | RelayGone():
                        await self._over(event, reader, witness)
                        return
                    case SessionChanged():
                        self.detached = event.detached
                        await self.inbox.put(event)
                    case EndTold():
                        self._told = end_message(run)
                    case _:
                        pass
        except CallFailed as error:
            # The target was asked and has no such attempt; not seeing it would say nothing.
            gone = RelayGone(reason=str(error), at=stages.clock.now())
            await self._over(gone, reader, witness)

    async def _found(self, finding: Finding) -> None:
        signature = meant(finding, (*self._stages.rules, *SIGNATURES))
        await self.inbox.put(
            FindingSeen(
                finding=finding,
                cause=signature.cause if signature else "",
                next_steps=signature.next_steps if signature else (),
                same_as=await self._earlier(finding.fingerprint, finding.family),
                told=self._told,
            )
        )

    async def _over(self, event: Exited | RelayGone, reader: Reader, witness: Witness) -> None:
        """The attempt has ended: its verdict, and what it is the same as."""
        await self.inbox.put(event)
        self._awaited = isinstance(event, Exited) and event.record.awaited
        kernel = await witness.last_words(event)
        verdict = with_kernel(await asyncio.to_thread(reader.verdict, event, kernel), kernel)
        await self.inbox.put(
            VerdictReached(
                verdict=verdict,
                same_as=await self._earlier(verdict.fingerprint, verdict.family),
                unresolved=await self._stages.store.incidents.unresolved_of_job(self.job.name),
                raw=event.record.raw if isinstance(event, Exited) else None,
                told=self._told,
                gone=event.reason if isinstance(event, RelayGone) else None,
            )
        )

    async def _earlier(self, fingerprint: str | None, family: str | None) -> str | None:
        return await self._stages.store.incidents.earlier(
            job=self.job.name, run=self.view.run.id, fingerprint=fingerprint, family=family
        )

    # --- decide ----------------------------------------------------------------------------------

    async def _decide(self, event: Input, tasks: asyncio.TaskGroup) -> None:
        policy = await self._stages.policy(self.job)
        decision = decide(self.view, event, policy, self._stages.clock.now())
        applied = await self._stages.store.apply(decision)
        self.view = after(self.view, decision)
        self._stages.changed(self.view.run.id)
        self._stages.resolved(self.view.run, decision.incidents)
        self.actor.cancel(decision.cancel)
        self.actor.act(applied.actions, tasks)
