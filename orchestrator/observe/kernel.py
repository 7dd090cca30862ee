"""The kernel log of one machine, followed over every new probe; each line is kept once.

Owns what of it is remembered and where to go on. What a line means is core/watch's to say.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from orchestrator.core.errors import TargetError
from orchestrator.core.events import KernelLine
from orchestrator.core.model import LinkState
from orchestrator.link.link import Link

MOST_LINES = 2000
ASK_WITHIN_S = 5.0


class KernelLog:
    """Construct it once for each machine; `follow` it for as long as its link is kept."""

    def __init__(self, link: Link, since: float) -> None:
        self.problem: str | None = None
        """Why the log is not seen; None while it is, and before the first attempt."""
        self.on_line: list[Callable[[KernelLine], None]] = []
        """Called with each new line."""
        self._link = link
        self._since = since
        self._after: int | None = None
        self._boot_id: str | None = None
        self._lines: deque[KernelLine] = deque(maxlen=MOST_LINES)

    async def follow(self) -> None:
        """Take what comes, and ask every new probe to go on where the last one was."""
        feed = self._link.listen("kernel", most=MOST_LINES)
        connected = asyncio.Event()
        forget = self._link.on_state(
            lambda state: connected.set() if state is LinkState.CONNECTED else None
        )
        if self._link.state is LinkState.CONNECTED:
            connected.set()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._ask_again(connected))
                async for frame in feed:
                    self._take(frame)
        finally:
            forget()
            self._link.unlisten(feed)

    def since(self, at: float) -> tuple[KernelLine, ...]:
        """The lines that are known, from a time on."""
        return tuple(line for line in self._lines if line.at >= at)

    async def read_now(self, at: float) -> tuple[KernelLine, ...]:
        """As `since`, with what the kernel has said up to this moment, where it can be asked."""
        try:
            answer = await self._link.call(
                "kernel_lines", timeout_s=ASK_WITHIN_S, since=self._since, after=self._after
            )
        except TargetError as error:
            self.problem = str(error)
            return self.since(at)
        for frame in answer["lines"]:
            self._take(frame)
        return self.since(at)

    async def _ask_again(self, connected: asyncio.Event) -> None:
        while True:
            await connected.wait()
            connected.clear()
            boot_id = (self._link.hello or {}).get("boot_id")
            if boot_id != self._boot_id:
                self._boot_id, self._after = boot_id, None
            try:
                await self._link.call("kernel", since=self._since, after=self._after)
                self.problem = None
            except TargetError as error:
                self.problem = str(error)

    def _take(self, frame: dict[str, Any]) -> None:
        """A line that came both ways, asked for and followed, counts once."""
        number = int(frame["seq"])
        if self._after is not None and number <= self._after:
            return
        self._after = number
        line = KernelLine(
            line=str(frame["line"]),
            at=float(frame["t"]),
            container_pid=frame["container_pid"],
            container=frame["container"],
            run=frame["run"],
            run_dir=frame["run_dir"],
        )
        self._lines.append(line)
        for tell in self.on_line:
            tell(line)
