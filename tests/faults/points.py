"""Where a daemon under test can be made to die by SIGKILL: before or after an await of interest.

The daemon's own code has no trace of this: the functions are wrapped here, in the process that is
to die. A name that no longer exists is an error at once, and a point that is never reached fails
its test.
"""

import functools
import inspect
import itertools
import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator import acting, supervise
from orchestrator.daemon import stopping
from orchestrator.daemon.gate import Gate
from orchestrator.observe.follow import Follower
from orchestrator.reading import Reader
from orchestrator.sinks.webhook import WebhookSink
from orchestrator.store.actions import Actions
from orchestrator.store.deliveries import Deliveries
from orchestrator.store.environments import Environments
from orchestrator.store.logs import Logs
from orchestrator.store.runs import Runs
from orchestrator.store.store import Store

POINTS: Mapping[str, tuple[Any, str]] = {
    "take": (Runs, "take"),
    "create": (Runs, "create"),
    "apply": (Store, "apply"),
    "pending": (Actions, "is_pending"),
    "done": (Actions, "done"),
    "launch": (acting, "launch"),
    "follow": (supervise, "follow"),
    "append": (Logs, "append"),
    "stored": (Follower, "stored"),
    "persist": (Runs, "update"),
    "look": (Environments, "add"),
    "verdict": (Reader, "verdict"),
    "evidence": (acting, "collect"),
    "turn": (Gate, "turn"),
    "end": (acting, "end"),
    "word": (stopping, "keep"),
    "preflight": (acting, "preflight"),
    "heads": (Deliveries, "heads"),
    "send": (WebhookSink, "send"),
    "delivered": (Deliveries, "delivered"),
    "rebuild": (Runs, "rebuild"),
}


def _counts(point: str, args: tuple[Any, ...]) -> bool:
    """A decision that changes nothing is no passing: each new daemon makes some of these again."""
    return point != "apply" or bool(args[1].notes or args[1].outgoing)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Die before or after the nth passing of a point."""

    point: str
    side: str
    nth: int = 1

    @classmethod
    def of(cls, text: str) -> "Fault":
        """From `apply:before` or `apply:after:3`."""
        point, side, *rest = text.split(":")
        return cls(point=point, side=side, nth=int(rest[0]) if rest else 1)

    def __str__(self) -> str:
        return f"{self.point}:{self.side}:{self.nth}"


def arm(fault: Fault) -> None:
    """Let this process die there."""
    owner, name = POINTS[fault.point]
    passings = itertools.count(1)

    def die(side: str, passing: int) -> None:
        if side == fault.side and passing == fault.nth:
            os.kill(os.getpid(), signal.SIGKILL)

    def passing(args: tuple[Any, ...]) -> int:
        return next(passings) if _counts(fault.point, args) else 0

    setattr(owner, name, _wrapped(getattr(owner, name), passing, die))


def _wrapped(
    real: Callable[..., Any],
    passing: Callable[[tuple[Any, ...]], int],
    die: Callable[[str, int], None],
) -> Callable[..., Any]:
    @functools.wraps(real)
    def plain(*args: Any, **kwargs: Any) -> Any:
        number = passing(args)
        die("before", number)
        value = real(*args, **kwargs)
        die("after", number)
        return value

    @functools.wraps(real)
    async def awaited(*args: Any, **kwargs: Any) -> Any:
        number = passing(args)
        die("before", number)
        value = await real(*args, **kwargs)
        die("after", number)
        return value

    return awaited if inspect.iscoroutinefunction(real) else plain
