"""Does what was decided for one run: its actions, in their order, each marked once it is done.

Owns what a launch, a stop and a relaunch are made of, and how long one that patience.py says is
tried again waits. It must not decide: what an action ends in is told, and decided on.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.clock import Clock
from orchestrator.core.decide.decision import Action, ActionKind, Policy
from orchestrator.core.decide.inputs import BackoffOver, Input, Launched, LaunchFailed, StopDone
from orchestrator.core.decide.routes import sinks_for
from orchestrator.core.detect.signatures import Signature
from orchestrator.core.errors import OrchError, PreflightRefused, StoreError, Unreachable
from orchestrator.core.events import GpusSampled
from orchestrator.core.model import Incident, Job, Release, Run, SinkSpec
from orchestrator.deploy.environment import fingerprint
from orchestrator.launch.configuration import configuration
from orchestrator.launch.held_gpus import holders_named
from orchestrator.launch.preflight import preflight, refusal, require
from orchestrator.launch.session import (
    ACKNOWLEDGED_WITHIN_S,
    acknowledge,
    adopt,
    attempt_dir,
    end,
    end_labels,
    launch,
    launch_spec,
)
from orchestrator.link.link import Link
from orchestrator.observe.evidence import collect
from orchestrator.patience import is_to_wait
from orchestrator.sinks.handover import handed
from orchestrator.store.environments import Moment
from orchestrator.store.store import Store
from orchestrator.witness import Surroundings, gpus_of, host_of

RETRY_FIRST_S = 1.0
RETRY_MOST_S = 30.0
REMAINS_GRACE_S = 5.0
LAUNCH_WITHIN_S = 60.0
EVIDENCE_LOG_BYTES = 1024 * 1024

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stages:
    """What one run is taken through its stages with, given by the daemon."""

    store: Store
    link: Link
    machine: Surroundings
    """What is below the target: its kernel's log, and who holds its GPUs."""
    gpus: Callable[[], GpusSampled | None]
    """The newest samples of the target's GPUs."""
    clock: Clock
    rules: tuple[Signature, ...]
    policy: Callable[[Job], Awaitable[Policy]]
    """The alerts and silences of the moment."""
    lookup: Callable[[str], str | None]
    """Value of a secret."""
    every_value: Callable[[str], Iterable[str]]
    """What a secret has and had for a value: earlier ones may still be printed."""
    changed: Callable[[str], None]
    """The run has something new to show."""
    resolved: Callable[[Run, tuple[Incident, ...]], None]
    """A run's decision changed these incidents, of earlier runs of its job as well."""
    turn: Callable[[], Awaitable[None]]
    """Waits until this run may be launched again, so that a fleet does not start all at once."""
    own_alert: bool
    """Whether the run's relay may alert by itself; it would tell a simulation as the truth."""
    evidence: Path
    seek: Callable[[], Coroutine[Any, Any, None]]
    """Finds out whether the run is where `link` leads; OrchError where it is not."""
    there: Callable[[], Awaitable[None]]
    """Until that is found out: nothing is asked of another machine, and nothing done there."""


class Actor:
    """One run's actions; `current` is the run as it is, `tell` takes what an action ends in."""

    def __init__(
        self,
        job: Job,
        stages: Stages,
        current: Callable[[], Run],
        tell: Callable[[Input], Awaitable[None]],
    ) -> None:
        self.ending: Mapping[str, Any] | None = None
        """What the last STOP said: who was ended, and when the GPUs were free."""
        self._job, self._stages, self._current, self._tell = job, stages, current, tell
        self._acting: dict[ActionKind, asyncio.Task[None]] = {}
        self._waiting: asyncio.Task[None] | None = None
        """A RELAUNCH that waits for its time; what comes before it is done in any case."""

    def act(self, actions: tuple[Action, ...], tasks: asyncio.TaskGroup) -> None:
        """Do the actions of one decision, one after the other, while the next one is made."""
        if actions:
            names = " ".join(action.kind for action in actions)
            task = tasks.create_task(self._perform(actions), name=f"{actions[0].run} {names}")
            self._acting |= {action.kind: task for action in actions}

    def cancel(self, kinds: frozenset[ActionKind]) -> None:
        """A relaunch that waits for its time waits no more; anything else sees to it by itself."""
        if ActionKind.RELAUNCH in kinds and self._waiting is not None:
            self._waiting.cancel()

    async def settled(self) -> None:
        """Until nothing is being done any more."""
        await asyncio.gather(*self._acting.values(), return_exceptions=True)

    def look(self, moment: Moment, tasks: asyncio.TaskGroup) -> None:
        """Keep what the present attempt finds around it, while everything else goes on."""
        run = self._current()
        tasks.create_task(self._keep_look(run, moment), name=f"look {run.id}.{run.attempt}")

    async def _keep_look(self, run: Run, moment: Moment) -> None:
        found: Mapping[str, Any]
        try:
            found = await fingerprint(self._stages.link, self._job, await self._release(run))
        except OrchError as error:
            found = {"error": str(error)}
        settings, store = configuration(self._job, run), self._stages.store
        try:
            await store.environments.add(run.id, run.attempt, moment, found, settings)
        except StoreError as error:
            logger.warning("look.not_kept", extra={"run": run.id, "why": str(error)})

    async def _perform(self, actions: tuple[Action, ...]) -> None:
        for action in actions:
            result = await self._persist_in(action)
            if result is not None:
                await self._tell(result)  # the decision on it marks the action done
            if isinstance(result, LaunchFailed):
                return

    async def _persist_in(self, action: Action) -> Input | None:
        """Do one action; while the target cannot be reached, again and again."""
        delay_s, store = RETRY_FIRST_S, self._stages.store
        if action.kind is not ActionKind.RELAUNCH:  # which only waits for its time
            await self._stages.there()
        while await store.actions.is_pending(action):
            try:
                result = await self._do(action)
                if result is None:
                    await store.actions.done(action)
                return result
            except OrchError as error:
                if is_to_wait(action, error, self._current()):
                    logger.info("action.waits", extra={"action": action.key, "why": str(error)})
                    await self._stages.clock.sleep(self._stages.clock.jitter(delay_s))
                    delay_s = min(2 * delay_s, RETRY_MOST_S)
                    continue
                logger.warning("action.failed", extra={"action": action.key, "why": str(error)})
                if isinstance(error, PreflightRefused):
                    return LaunchFailed(text=refusal(error.checks))
                if action.kind is ActionKind.LAUNCH:
                    return LaunchFailed(text=str(error))
                if action.kind is ActionKind.STOP:
                    return StopDone()
                await store.actions.done(action, error=str(error))
        return None

    async def _do(self, action: Action) -> Input | None:
        run, stages = self._current(), self._stages
        match action.kind:
            case ActionKind.LAUNCH:
                return await self._launch()
            case ActionKind.RELAUNCH:
                await self._wait_until(action.at or 0.0)
                return BackoffOver(attempt=action.attempt)
            case ActionKind.STOP:
                if (launching := self._acting.get(ActionKind.LAUNCH)) is not None:
                    # What is being started can be ended only once it is there.
                    await asyncio.wait({launching}, timeout=LAUNCH_WITHIN_S)
                await self._end(run, action)
                return StopDone()
            case ActionKind.END_REMAINS:
                await self._after_evidence()
                await self._end(run, action)
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
                    host=host_of(stages.link, stages.machine),
                )
                return None

    async def _end(self, run: Run, action: Action) -> None:
        """End all that there is of a run, and keep who that was and when its GPUs were free."""
        stages = self._stages
        grace_s = action.grace_s if action.grace_s is not None else REMAINS_GRACE_S
        gpus = gpus_of(run, stages.gpus())
        ended = await end(stages.link, self._job, run, grace_s=grace_s, gpus=gpus)
        if action.kind is ActionKind.STOP or run.state.ended:  # and not before another attempt
            held = await holders_named(self._on_host(), ended["gpu_holders"])
            self.ending = {**ended, "gpu_holders": held}

    async def _after_evidence(self) -> None:
        """Until the target has said what it says of an attempt that failed, which another changes.

        An action of a later decision than the one that asked for it would go before it.
        """
        looking = self._acting.get(ActionKind.COLLECT_EVIDENCE)
        if looking is not None and looking is not asyncio.current_task():
            await asyncio.wait({looking})

    async def _wait_until(self, at: float) -> None:
        """Until the time has come, and the fleet's turn; `cancel` ends it."""
        self._waiting = waiting = asyncio.current_task()
        try:
            await self._after_evidence()
            await self._stages.clock.sleep(max(0.0, at - self._stages.clock.now()))
            await self._stages.turn()
        finally:
            # The one that takes its place may have begun by now.
            self._waiting = None if self._waiting is waiting else self._waiting

    async def _launch(self) -> Launched:
        run, stages = self._current(), self._stages
        if self._job.adopts is not None:
            answer = await adopt(stages.link, self._job, run, self._job.adopts)
        else:
            secrets = {name: value for name in self._job.secrets if (value := stages.lookup(name))}
            sinks = handed(await self._own_sinks(run), stages.lookup)
            spec = launch_spec(self._job, run, await self._release(run), secrets, sinks)
            answer = await launch(stages.link, spec)
        return Launched(directory=answer["attempt_dir"], started_at=answer["started_at"])

    async def _own_sinks(self, run: Run) -> tuple[SinkSpec, ...]:
        """Whom the relay may alert itself: where an alert of a bad end would go."""
        if not self._stages.own_alert:
            return ()
        alerts = (await self._stages.policy(self._job)).alerts
        names = sinks_for(end_labels(self._job, run), alerts, (), self._stages.clock.now())
        return tuple(sink for sink in alerts.sinks if sink.name in names)

    def acknowledge(self, tasks: asyncio.TaskGroup) -> None:
        """The present attempt's end is stored: let its relay know, which else alerts itself."""
        run = self._current()
        tasks.create_task(self._acknowledge(run), name=f"acknowledge {run.id}")

    async def _acknowledge(self, run: Run) -> None:
        clock, why = self._stages.clock, ""
        until = clock.monotonic() + ACKNOWLEDGED_WITHIN_S
        while clock.monotonic() < until:
            try:
                await acknowledge(self._stages.link, run)
            except Unreachable as error:
                why = str(error)
                await clock.sleep(RETRY_FIRST_S)
            except OrchError as error:
                why = str(error)
                break
            else:
                return
        logger.warning("end.unacknowledged", extra={"run": run.id, "why": why})

    async def _release(self, run: Run) -> Release | None:
        if run.release is None:
            return None
        return await self._stages.store.releases.find(self._job.name, run.target, run.release)

    async def _require_fit(self) -> None:
        """A relaunch asks what a first launch asked; PreflightRefused where it is not so."""
        run, stages = self._current(), self._stages
        release = await self._release(run)
        now, on_host = stages.clock.now(), self._on_host()
        checks = await preflight(stages.link, self._job, run, release, now=now, on_host=on_host)
        if not run.forced:
            require(checks)

    def _on_host(self) -> Link | None:
        return host_of(self._stages.link, self._stages.machine)
