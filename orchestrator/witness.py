"""Looks at a run from outside of its log: what the kernel, the GPUs and the clock say of it.

Owns when what is asked, and the evidence of a hang. What it means is core/watch's to say; what
follows, core/decide's.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from orchestrator.clock import Clock
from orchestrator.core.errors import TargetError
from orchestrator.core.events import Exited, GpusSampled, KernelLine, RelayGone
from orchestrator.core.findings import Finding
from orchestrator.core.model import GpuSample, Job, LinkState, Run
from orchestrator.core.parse.kernel_log import KernelEvent
from orchestrator.core.parse.nccl_ras import lags
from orchestrator.core.watch.activity import Activity
from orchestrator.core.watch.advice import HANG
from orchestrator.core.watch.cards import Cards
from orchestrator.core.watch.kernel import Whose, kernel_events, own_cards, xid_finding
from orchestrator.core.watch.vigil import Silence, Vigil
from orchestrator.launch.session import attempt_dir
from orchestrator.link.link import Link
from orchestrator.observe.evidence import keep
from orchestrator.observe.gpus import gpus_sampled
from orchestrator.observe.kernel import KernelLog
from orchestrator.observe.stacks import dump

MOST_WAITING = 200
"""Lines of a storm; the oldest say enough."""
LOOK_S = 2.0
ASK_AGAIN_S = 60.0
"""A run that is silent and busy is asked this seldom."""
CPU_OVER_S = 5.0
ASK_WITHIN_S = 60.0
ASK_XIDS_WITHIN_S = 15.0

logger = logging.getLogger(__name__)


class Surroundings(Protocol):
    """The machine below a target, as the daemon sees it."""

    link: Link
    kernel: KernelLog
    holders: dict[int, Mapping[str, Any]]


def host_of(link: Link, machine: Surroundings) -> Link | None:
    """The link to the machine below a target; None where the target is one, or is not seen."""
    seen = machine.link.state is not LinkState.UNREACHABLE
    return machine.link if seen and machine.link is not link else None


def gpus_of(run: Run, gpus: GpusSampled | None) -> list[str]:
    """UUIDs of the GPUs that a run is seen on, from inside or from its host."""
    whose = Whose(run=run.id, directory=run.directory, container=None)
    samples = gpus.samples if gpus is not None else ()
    own = own_cards(samples, whose)
    return [one.uuid for one in samples if one.index in own and one.uuid]


class Witness:
    """One attempt, seen from outside."""

    def __init__(
        self,
        run: Run,
        since: float,
        job: Job,
        link: Link,
        clock: Clock,
        vigil: Vigil,
        machine: Surroundings,
        gpus: Callable[[], GpusSampled | None],
        evidence: Path,
    ) -> None:
        """`since`: when the attempt started, in the target's time."""
        self._run, self._link, self._clock, self._vigil = run, link, clock, vigil
        self._machine, self._gpus, self._evidence = machine, gpus, evidence
        self._target = job.target_named(run.target)
        self._ask_at = 0.0
        self._cards = Cards(since)
        self._cards_at = 0.0

    async def findings(self) -> AsyncGenerator[Finding, None]:
        """What goes wrong while the attempt lives; for as long as it is iterated."""
        lines: asyncio.Queue[KernelLine] = asyncio.Queue(MOST_WAITING)

        def told(line: KernelLine) -> None:
            if not lines.full():
                lines.put_nowait(line)

        self._machine.kernel.on_line.append(told)
        try:
            while True:
                await self._clock.rest(LOOK_S)
                while not lines.empty():
                    found = xid_finding(lines.get_nowait(), self._whose())
                    if found is not None:
                        yield found
                for finding in await self._look():
                    yield finding
        finally:
            self._machine.kernel.on_line.remove(told)

    async def last_words(self, end: Exited | RelayGone) -> tuple[KernelEvent, ...]:
        """What the kernel has said of the attempt, up to its end; nothing where it went well."""
        record = end.record if isinstance(end, Exited) else None
        if record is not None and record.code == 0:
            return ()
        since = record.started_at if record is not None else self._run.started_at or 0.0
        lines = await self._machine.kernel.read_now(since)
        found = kernel_events(lines, self._whose(), record)
        if self._machine.kernel.problem is None:
            return found
        await self._hear_driver()
        return (*found, *self._cards.told_by_driver())

    async def _hear_driver(self) -> None:
        """What the target's own driver told, for where the host's kernel log is not seen."""
        gpus = self._gpus()
        self._cards.hear(gpus.samples if gpus is not None else ())
        try:
            answer = await self._link.call("gpus", timeout_s=ASK_XIDS_WITHIN_S)
        except TargetError as error:
            logger.info("witness.unheard", extra={"run": self._run.id, "why": str(error)})
            return
        self._cards.hear(gpus_sampled({**answer, "t": 0.0}).samples)

    def _whose(self) -> Whose:
        return Whose(
            run=self._run.id,
            directory=self._run.directory,
            container=self._target.container if self._target.runtime != "none" else None,
            holders=self._machine.holders,
        )

    async def _look(self) -> list[Finding]:
        return [*self._look_at_cards(), *await self._look_at_time()]

    def _look_at_cards(self) -> list[Finding]:
        gpus = self._gpus()
        if gpus is None or gpus.at == self._cards_at:
            return []
        self._cards_at = gpus.at
        return self._cards.take(
            gpus.samples,
            own_cards(gpus.samples, self._whose()),
            stepping=self._vigil.gets_on(self._clock.now()),
        )

    async def _look_at_time(self) -> list[Finding]:
        now = self._clock.now()
        self._vigil.link(seen=self._link.state is LinkState.CONNECTED, at=now)
        found = self._vigil.look(now)
        silence = self._vigil.silence(now)
        if silence is not None and self._clock.monotonic() >= self._ask_at:
            hang = await self._second_witness(silence)
            self._ask_at = self._clock.monotonic() + ASK_AGAIN_S
            found += [hang] if hang is not None else []
        return found

    async def _second_witness(self, silence: Silence) -> Finding | None:
        """Stacks, CPU and GPUs, and the stacks again; kept as evidence where they say a hang."""
        try:
            first = await self._dump()
            used = await self._ask("activity", over_s=CPU_OVER_S)
            second = await self._dump()
        except TargetError as error:
            logger.info("witness.unheard", extra={"run": self._run.id, "why": str(error)})
            return None
        samples = self._own_samples()
        activity = Activity(
            cpu_cores=used["cpu_cores"],
            gpu_percents=tuple(
                one.utilization_percent for one in samples if one.utilization_percent is not None
            ),
            power_parts=tuple(
                one.power_w / one.extra["power_limit_w"]
                for one in samples
                if one.power_w is not None and one.extra.get("power_limit_w")
            ),
            commands=tuple(one["command"] for one in used["processes"]),
            stacks=_stacks(first),
            later_stacks=_stacks(second),
            lags=lags(first.get("nccl") or ""),
            later_lags=lags(second.get("nccl") or ""),
        )
        finding = self._vigil.judge(silence, activity)
        if finding is not None and finding.signature == HANG:
            kernel = [line.line for line in self._machine.kernel.since(self._run.started_at or 0.0)]
            kept = {"said": finding.text, "activity": used, "stacks": second, "kernel": kernel}
            file = self._evidence / f"{self._run.id}.{self._run.attempt}.hang.json"
            await asyncio.to_thread(keep, file, kept)
        return finding

    def _own_samples(self) -> list[GpuSample]:
        """Of the run's GPUs, where it is known which those are: others' say nothing of it."""
        gpus = self._gpus()
        samples = gpus.samples if gpus is not None else ()
        own = self._cards.own
        return [one for one in samples if not own or one.index in own]

    async def _dump(self) -> dict[str, Any]:
        return await dump(
            self._link,
            host_of(self._link, self._machine),
            self._run,
            attempt_dir=attempt_dir(self._run),
            folders=self._folders(),
        )

    async def _ask(self, op: str, **args: Any) -> dict[str, Any]:
        answer: dict[str, Any] = await self._link.call(
            op,
            timeout_s=ASK_WITHIN_S,
            run=self._run.id,
            uid=self._run.uid,
            attempt_dir=attempt_dir(self._run),
            **args,
        )
        return answer

    def _folders(self) -> list[str]:
        """Where py-spy may be besides PATH: beside the job's Python."""
        folder = self._target.python_folder
        return [folder] if folder else []


def _stacks(found: Mapping[str, Any]) -> tuple[str, ...]:
    """As told inside, else as the host told them."""
    processes = [*found["processes"], *found.get("host", {}).get("processes", ())]
    return tuple(one["stacks"] for one in processes if one.get("stacks"))
