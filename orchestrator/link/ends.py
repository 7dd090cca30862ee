"""The two ends of a copy, and what is counted of one.

Here ops are done by calling them, on a target by asking its probe (probe/copying.py). Decides
nothing of what is copied.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from orchestrator.core.errors import OrchError
from orchestrator.probe import copy_turns, copying
from orchestrator.probe.errors import OpError

_WITHIN_S = 120.0
_OPS = {**copying.OPS, **copy_turns.OPS}


class End(Protocol):
    """One end of a copy: the ops of probe/copying.py."""

    async def call(
        self, op: str, *, timeout_s: float, raw: bytes | None = None, **args: Any
    ) -> Any:
        """The op's value; OrchError where it fails. `raw` becomes its `data`."""
        ...


class Here:
    """This machine as an end."""

    async def call(
        self, op: str, *, timeout_s: float, raw: bytes | None = None, **args: Any
    ) -> Any:
        """Do the op in a thread."""
        del timeout_s
        if raw is not None:
            args["data"] = raw
        try:
            return await asyncio.to_thread(_OPS[op], args, lambda _: None)
        except OpError as error:
            raise OrchError(error.message, remedy=error.remedy) from error


@dataclass(slots=True)
class Copied:
    """What a copy has done so far; `report` is called whenever it has done more."""

    report: Callable[["Copied"], None] = lambda _: None
    total_bytes: int = 0
    done_bytes: int = 0
    """Bytes that are there now, found or sent."""
    sent_bytes: int = 0
    files: int = 0
    unchanged: int = 0
    left_out: list[str] = field(default_factory=list)
    """Sockets, devices and FIFOs."""

    def add(self, *, sent: int = 0, found: int = 0) -> None:
        """Count bytes."""
        self.sent_bytes += sent
        self.done_bytes += sent + found
        self.report(self)


async def call(end: End, op: str, **args: Any) -> Any:
    """Ask an end for an op of a copy, which may take long."""
    return await end.call(op, timeout_s=_WITHIN_S, **args)
