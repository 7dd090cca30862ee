"""The only reader of time and randomness in the daemon; tests give a ManualClock instead."""

import asyncio
import datetime
import random
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Protocol, TypeVar

T = TypeVar("T")
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


class Clock(Protocol):
    """Time and randomness, as the daemon sees them."""

    def now(self) -> float:
        """Unix seconds."""
        ...

    def monotonic(self) -> float:
        """Seconds that never jump."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...

    def jitter(self, seconds: float) -> float:
        """`seconds` give or take a tenth."""
        ...

    def new_id(self, length: int = 8) -> str:
        """A random id of digits and small letters (Crockford's alphabet)."""
        ...


class SystemClock:
    """The real one."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def jitter(self, seconds: float) -> float:
        return seconds * random.uniform(0.9, 1.1)

    def new_id(self, length: int = 8) -> str:
        return "".join(secrets.choice(_ALPHABET) for _ in range(length))


def utc_text(unix: float) -> str:
    """RFC 3339 in UTC with milliseconds, as alerts and logs carry it."""
    moment = datetime.datetime.fromtimestamp(unix, tz=datetime.UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def second_of_day(unix: float) -> float:
    """Seconds since midnight in this machine's time zone."""
    moment = datetime.datetime.fromtimestamp(unix, tz=datetime.UTC).astimezone()
    return moment.hour * 3600.0 + moment.minute * 60.0 + moment.second


async def with_pauses(items: AsyncIterator[T], seconds: float) -> AsyncGenerator[T | None, None]:
    """The items, and None whenever `seconds` pass without one."""
    step: asyncio.Task[T] | None = None
    try:
        while True:
            step = step or asyncio.ensure_future(_next(items))
            done, _ = await asyncio.wait({step}, timeout=seconds)
            if not done:
                yield None
                continue
            try:
                item = step.result()
            except StopAsyncIteration:
                return
            step = None
            yield item
    finally:
        if step is not None:
            step.cancel()
            await asyncio.gather(step, return_exceptions=True)


async def _next(items: AsyncIterator[T]) -> T:
    return await items.__anext__()
