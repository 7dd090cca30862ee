"""THE PIPELINE for one run: launch, observe, detect, decide, act; from the store's word to its end.

    deploy    before the run exists (daemon/launching.py); `release` names what it left there
    launch    LAUNCH        launch/session.py starts the relay in tmux, once however often asked
    observe   _observe      observe/follow.py gives every byte, the metrics and the exit record
    detect    Reader        core/detect finds what went wrong, and says the verdict at the end
              Witness       core/watch finds what the log does not say: kernel, GPUs, the clock
    decide    _decide       core/decide says what follows; the store keeps it, and then
    act       _perform      the actions are done, each marked when it is

It must not parse, match or query: the stages do. A daemon killed anywhere in here starts again
from what the store holds.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.clock import Clock
from orchestrator.core.decide.decision import Action, ActionKind, Policy, RunView, after
from orchestrator.core.decide.inputs import (
    BackoffOver,
    FindingSeen,
    Input,
    Launched,
    LaunchFailed,
    StopDone,
    VerdictReached,
)
from orchestrator.core.decide.lifecycle import decide
from orchestrator.core.detect.signatures import Signature, load
from orchestrator.core.errors import OrchError, PreflightRefused, StoreError, Unreachable
from orchestrator.core.events import Exited, GpusSampled, RelayGone, SessionChanged
from orchestrator.core.findings import Finding
from orchestrator.core.model import Job, Release, Run, RunState
from orchestrator.core.watch.advice import WATCHED
from orchestrator.deploy.environment import fingerprint
from orchestrator.launch.configuration import configuration
from orchestrator.launch.preflight import preflight, require
from orchestrator.launch.session import adopt, attempt_dir, end, launch, launch_spec
from orchestrator.link.link import Link
from orchestrator.link.probe_channel import CallFailed
from orchestrator.observe.evidence import collect
from orchestrator.observe.follow import follow
from orchestrator.reading import Reader
from orchestrator.store.environments import Moment
from orchestrator.store.store import Store
from orchestrator.witness import Surroundings, Witness

RETRY_FIRST_S = 1.0
RETRY_MOST_S = 30.0
REMAINS_GRACE_S = 5.0
LAUNCH_WITHIN_S = 60.0
EVIDENCE_LOG_BYTES = 1024 * 1024
SIGNATURES = {item.id: item for item in (*load(), *WATCHED)}

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stages:
    """What a supervisor works with, given by the daemon."""

    store: Store
    link: Link
    machine: Surroundings
    """What is below the target: its kernel's log, and who holds its GPUs."""
    gpus: Callable[[], GpusSampled | None]
    """The newest samples of the target's GPUs."""
    clock: Clock
    rules: tuple[Signature, ...]
    policy: Callable[[Job], Any]
    """Job -> awaitable Policy: the alerts and silences of the moment."""
    lookup: Callable[[str], str | None]
    """Value of a secret."""
    changed: Callable[[str], None]
    """The run has something new to show."""
    turn: Callable[[], Awaitable[None]]
    """Waits until this run may be launched again, so that a fleet does not start all at once."""
    evidence: Path


class Supervisor:
    """Takes one run to its end."""

    def __init__(self, view: RunView, job: Job, stages: Stages) -> None:
        self.view = view
        self.job = job
        self.reader: Reader | None = None
        self.detached = False
        self.ending: Mapping[str, Any] | None = None
        """What the last STOP said: who was ended, and when the GPUs were free."""
        self._stages = stages
        self._inbox: asyncio.Queue[Input] = asyncio.Queue(maxsize=100)
        self._acting: dict[ActionKind, asyncio.Task[None]] = {}

    def tell(self, event: Input) -> None:
        """Something a person said; it is decided in turn."""
        self._inbox.put_nowait(event)

    async def supervise(self) -> None:
        """Until the run has ended and nothing is left to do."""
        async with asyncio.TaskGroup() as tasks:
            self._act(await self._stages.store.actions.pending(self.view.run.id), tasks)
            observer = self._observe_if_launched(tasks)
            while not self.view.run.state.ended:
                event = await self._inbox.get()
                await self._decide(event, tasks)
                if isinstance(event, Launched):
                    observer = self._observe_if_launched(tasks)
                    self._look(Moment.LAUNCH, tasks)
                if isinstance(event, VerdictReached):
                    self._look(Moment.END, tasks)
            if observer is not None:
                observer.cancel()

    # --- observe and detect ----------------------------------------------------------------------

    def _observe_if_launched(self, tasks: asyncio.TaskGroup) -> asyncio.Task[None] | None:
        run = self.view.run
        present = [one for one in self.view.attempts if one.number == run.attempt]
        if not present or run.state.ended or run.state is RunState.BACKOFF:
            return None
        return tasks.create_task(self._observe(), name=f"observe {run.id}.{run.attempt}")

    async def _observe(self) -> None:
        run, stages = self.view.run, self._stages
        reader = Reader(stages.store, run, self.job, stages.rules, stages.clock)
        reader.changed = lambda: stages.changed(run.id)
        self.reader = reader
        witness = Witness(
            run, self.job, stages.link, stages.clock, reader.vigil,
            stages.machine, stages.gpus, stages.evidence,
        )  # fmt: skip
        known = {one.fingerprint for one in self.view.incidents}
        for finding in await asyncio.to_thread(reader.replay):
            if finding.fingerprint not in known:
                await self._found(finding)
        async with asyncio.TaskGroup() as tasks:
            heeding = tasks.create_task(self._heed(witness), name=f"witness {run.id}")
            await self._read(reader, witness)
            heeding.cancel()

    async def _heed(self, witness: Witness) -> None:
        async for finding in witness.findings():
            await self._found(finding)

    async def _read(self, reader: Reader, witness: Witness) -> None:
        run, stages = self.view.run, self._stages
        try:
            follower = await follow(
                stages.link,
                run,
                attempt_dir(run),
                clock=stages.clock,
                log_offset=reader.log_offset,
                metrics_offset=reader.metrics_offset,
            )
            async for event in reader.events(follower):
                match event:
                    case Finding():
                        await self._found(event)
                    case Exited() | RelayGone():
                        await self._over(event, reader, witness)
                        return
                    case SessionChanged():
                        self.detached = event.detached
                        await self._inbox.put(event)
                    case _:
                        pass
        except CallFailed as error:
            # The target was asked and has no such attempt; not seeing it would say nothing.
            gone = RelayGone(reason=str(error), at=stages.clock.now())
            await self._over(gone, reader, witness)

    async def _found(self, finding: Finding) -> None:
        signature = SIGNATURES.get(finding.signature)
        await self._inbox.put(
            FindingSeen(
                finding=finding,
                cause=signature.cause if signature else "",
                next_steps=signature.next_steps if signature else (),
                same_as=await self._earlier(finding.fingerprint, finding.family),
            )
        )

    def _look(self, moment: Moment, tasks: asyncio.TaskGroup) -> None:
        """Keep what the present attempt finds around it, while everything else goes on."""
        run = self.view.run
        tasks.create_task(self._keep_look(run, moment), name=f"look {run.id}.{run.attempt}")

    async def _keep_look(self, run: Run, moment: Moment) -> None:
        found: Mapping[str, Any]
        try:
            found = await fingerprint(self._stages.link, self.job, await self._release(run))
        except OrchError as error:
            found = {"error": str(error)}
        settings, store = configuration(self.job, run), self._stages.store
        try:
            await store.environments.add(run.id, run.attempt, moment, found, settings)
        except StoreError as error:
            logger.warning("look.not_kept", extra={"run": run.id, "why": str(error)})

    async def _over(self, event: Exited | RelayGone, reader: Reader, witness: Witness) -> None:
        """The attempt has ended: its verdict, and what it is the same as."""
        await self._inbox.put(event)
        kernel = await witness.last_words(event)
        verdict = await asyncio.to_thread(reader.verdict, event, kernel)
        await self._inbox.put(
            VerdictReached(
                verdict=verdict,
                same_as=await self._earlier(verdict.fingerprint, verdict.family),
                unresolved=await self._stages.store.incidents.unresolved_of_job(self.job.name),
                raw=event.record.raw if isinstance(event, Exited) else None,
            )
        )

    async def _earlier(self, fingerprint: str | None, family: str | None) -> str | None:
        if not fingerprint:
            return None
        return await self._stages.store.incidents.earlier(
            job=self.job.name, run=self.view.run.id, fingerprint=fingerprint, family=family
        )

    # --- decide ----------------------------------------------------------------------------------

    async def _decide(self, event: Input, tasks: asyncio.TaskGroup) -> None:
        policy: Policy = await self._stages.policy(self.job)
        decision = decide(self.view, event, policy, self._stages.clock.now())
        applied = await self._stages.store.apply(decision)
        self.view = after(self.view, decision)
        self._stages.changed(self.view.run.id)
        if ActionKind.RELAUNCH in decision.cancel and ActionKind.RELAUNCH in self._acting:
            self._acting[ActionKind.RELAUNCH].cancel()
        self._act(applied.actions, tasks)

    # --- act -------------------------------------------------------------------------------------

    def _act(self, actions: tuple[Action, ...], tasks: asyncio.TaskGroup) -> None:
        """Do the actions of one decision, one after the other, while the next one is made."""
        if actions:
            names = " ".join(action.kind for action in actions)
            task = tasks.create_task(self._perform(actions), name=f"{actions[0].run} {names}")
            self._acting |= {action.kind: task for action in actions}

    async def _perform(self, actions: tuple[Action, ...]) -> None:
        for action in actions:
            result = await self._persist_in(action)
            if result is not None:
                await self._inbox.put(result)  # the decision on it marks the action done
            if isinstance(result, LaunchFailed):
                return

    async def _persist_in(self, action: Action) -> Input | None:
        """Do one action; while the target cannot be reached, again and again."""
        delay_s, store = RETRY_FIRST_S, self._stages.store
        while await store.actions.is_pending(action):
            try:
                result = await self._do(action)
                if result is None:
                    await store.actions.done(action)
                return result
            except Unreachable as error:
                logger.info("action.waits", extra={"action": action.key, "why": str(error)})
                await self._stages.clock.sleep(self._stages.clock.jitter(delay_s))
                delay_s = min(2 * delay_s, RETRY_MOST_S)
            except OrchError as error:
                logger.warning("action.failed", extra={"action": action.key, "why": str(error)})
                if action.kind is ActionKind.LAUNCH or isinstance(error, PreflightRefused):
                    return LaunchFailed(text=str(error))
                if action.kind is ActionKind.STOP:
                    return StopDone()
                await store.actions.done(action, error=str(error))
        return None

    async def _do(self, action: Action) -> Input | None:
        run, stages = self.view.run, self._stages
        match action.kind:
            case ActionKind.LAUNCH:
                return await self._launch()
            case ActionKind.RELAUNCH:
                await stages.clock.sleep(max(0.0, (action.at or 0.0) - stages.clock.now()))
                await stages.turn()
                return BackoffOver()
            case ActionKind.STOP:
                if (launching := self._acting.get(ActionKind.LAUNCH)) is not None:
                    # What is being started can be ended only once it is there.
                    await asyncio.wait({launching}, timeout=LAUNCH_WITHIN_S)
                grace_s = action.grace_s if action.grace_s is not None else REMAINS_GRACE_S
                self.ending = await end(stages.link, self.job, run, grace_s=grace_s)
                return StopDone()
            case ActionKind.END_REMAINS:
                await end(stages.link, self.job, run, grace_s=REMAINS_GRACE_S)
                if not run.state.ended:
                    await self._require_fit()
                return None
            case ActionKind.COLLECT_EVIDENCE:
                await collect(
                    stages.link,
                    stages.evidence / f"{action.run}.{action.attempt}.json",
                    run=run,
                    attempt_dir=attempt_dir(run),
                    log=stages.store.logs.tail(run.id, action.attempt, EVIDENCE_LOG_BYTES),
                    kernel=stages.machine.kernel.since(run.started_at or 0.0),
                )
                return None
            case ActionKind.DEPLOY:
                raise AssertionError("a run is deployed before it is stored")

    async def _launch(self) -> Launched:
        run, stages = self.view.run, self._stages
        if self.job.adopts is not None:
            answer = await adopt(stages.link, self.job, run, self.job.adopts)
            return Launched(directory=answer["attempt_dir"], started_at=answer["started_at"])
        secrets = {name: value for name in self.job.secrets if (value := stages.lookup(name))}
        spec = launch_spec(self.job, run, await self._release(run), secrets)
        answer = await launch(stages.link, spec)
        return Launched(directory=answer["attempt_dir"], started_at=answer["started_at"])

    async def _release(self, run: Run) -> Release | None:
        if run.release is None:
            return None
        return await self._stages.store.releases.find(self.job.name, run.target, run.release)

    async def _require_fit(self) -> None:
        """A relaunch asks what a first launch asked; PreflightRefused where it is not so."""
        run, stages = self.view.run, self._stages
        release = await self._release(run)
        checks = await preflight(stages.link, self.job, run, release, now=stages.clock.now())
        if not run.forced:
            require(checks)
