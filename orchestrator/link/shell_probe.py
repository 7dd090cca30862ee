"""The plain shell in a probe's place, where a target has no Python for one.

Owns one life of it: calls, and a look at every watch and at the GPUs every few seconds over the
connection that is open. It ends with the first look that fails, as a probe's life would.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from orchestrator.clock import Clock
from orchestrator.core.errors import TargetError, Unreachable
from orchestrator.core.model import Target
from orchestrator.link import shell_scripts as scripts
from orchestrator.link.calls import Progress
from orchestrator.link.probe_channel import FrameReader
from orchestrator.link.shell_ops import ShellOps, pairs
from orchestrator.link.shell_watch import ShellWatch
from orchestrator.probe.frames import VERSION, BadFrame, Frame
from orchestrator.transport.base import Transport

LOOK_EVERY_S = 2.0
IDLE_EVERY_S = 10.0
"""How often the target is asked for a sign of life where nothing is watched."""

SHELL = "shell"


async def start_shell(
    target: Target, transport: Transport, clock: Clock, on_frame: FrameReader
) -> "ShellProbe":
    """Meet the target by its shell; TargetError where that fails too."""
    ops = ShellOps(target, transport)
    said = pairs(await ops.run(scripts.HELLO))
    hello: Frame = {
        "kind": "hello",
        "v": VERSION,
        "probe": SHELL,
        "python": None,
        "pid": 0,
        "boot_id": said.get("boot", ""),
        "hostname": said.get("name", ""),
        "tmux": said.get("tmux", "").removeprefix("tmux ") or None,
        "generation": 0,
        "time": float(said.get("time") or 0.0),
        "features": [],
    }
    return ShellProbe(target, ops, hello, clock, on_frame)


class ShellProbe:
    """A ProbeChannel without a probe. `live()` has to run for watches to be looked at."""

    def __init__(
        self, target: Target, ops: ShellOps, hello: Frame, clock: Clock, on_frame: FrameReader
    ) -> None:
        self._target, self._ops, self._clock, self._on_frame = target, ops, clock, on_frame
        self.hello = hello
        self.seen_at = clock.now()
        self.late = False
        self.cut: TargetError | None = None
        """Always None: a look that fails is its end."""
        self.on_late: Callable[[], None] = lambda: None
        self._watches: dict[str, ShellWatch] = {}
        self._gpu_interval_s = 0.0
        self._gpus_next = self._idle_next = clock.monotonic()
        self._doom: TargetError | None = None
        self._stirred = asyncio.Event()

    async def live(self) -> TargetError:
        """Look, and look again, until a look fails; what ended it is the result."""
        try:
            while self._doom is None:
                more = await self._look()
                if not more:
                    await self._pause()
        except TargetError as error:
            return error
        except (ValueError, BadFrame) as error:
            return Unreachable(
                f"{self._target.name}: what the shell printed makes no sense: {error}.",
                target=self._target.name,
                remedy="It is tried again by itself.",
            )
        return self._doom

    async def call(
        self, op: str, *, timeout_s: float = 30.0, on_progress: Progress | None = None, **args: Any
    ) -> Any:
        """One op by the shell; CallFailed where it needs Python or failed."""
        del on_progress
        try:
            async with asyncio.timeout(timeout_s):
                if op == "watch":
                    self._watches[args["watch"]] = ShellWatch(args)
                    self._stirred.set()
                    return {}
                if op == "gpus" and "interval_s" in args:
                    self._gpu_interval_s = float(args["interval_s"])
                return await self._ops.do(op, args)
        except TimeoutError as exc:
            raise Unreachable(
                f"{self._target.name}: the shell gave no answer to `{op}` within {timeout_s:g} s.",
                target=self._target.name,
            ) from exc

    async def send(self, frame: Frame) -> None:
        """What the daemon tells a probe: what is stored, and which watch has ended."""
        if frame["kind"] == "ack" and (watch := self._watches.get(frame["watch"])) is not None:
            watch.acknowledge(frame["stream"], frame["offset"])
        elif frame["kind"] == "call" and frame["op"] == "unwatch":
            self._watches.pop(frame["args"]["watch"], None)

    def drop(self, problem: TargetError) -> None:
        """End this life; `live()` comes back with the problem."""
        self._doom = self._doom or problem
        self._stirred.set()

    async def _pause(self) -> None:
        waiting = asyncio.create_task(self._stirred.wait())
        sleeping = asyncio.create_task(self._clock.sleep(LOOK_EVERY_S))
        try:
            await asyncio.wait({waiting, sleeping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._stirred.clear()
            for task in (waiting, sleeping):
                task.cancel()
            await asyncio.gather(waiting, sleeping, return_exceptions=True)

    async def _look(self) -> bool:
        """One look at everything that is due; whether there is more to read at once."""
        more = False
        for watch in list(self._watches.values()):
            done = await self._ops.run(scripts.LOOK, *watch.words)
            self._heard()
            for frame in watch.frames(done.stdout):
                self._on_frame(frame)
            if watch.over:
                self._watches.pop(watch.name, None)
            more = more or (watch.more and int(watch.words[-1]) > 0)
        now = self._clock.monotonic()
        if self._gpu_interval_s and now >= self._gpus_next:
            self._gpus_next = now + max(self._gpu_interval_s, LOOK_EVERY_S)
            self._on_frame({"kind": "gpus", "t": self._clock.now(), **await self._ops.gpus()})
            self._heard()
        if now >= self._idle_next:
            self._idle_next = now + IDLE_EVERY_S
            await self._ops.run("true")
            self._heard()
        return more

    def _heard(self) -> None:
        self.seen_at = self._clock.now()
