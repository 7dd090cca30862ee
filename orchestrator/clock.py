"""The only reader of time and randomness in the daemon; tests give a ManualClock instead."""

import asyncio
import datetime
import random
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Protocol, TypeVar

T = TypeVar("T")
MOMENT_S = 1.0
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

    async def rest(self, seconds: float) -> None:
        """Wait about so long: whatever looks now and then wakes the machine at common moments."""
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

    async def rest(self, seconds: float) -> None:
        await self.sleep(to_moment(seconds, self.monotonic()))

    def jitter(self, seconds: float) -> float:
        return seconds * random.uniform(0.9, 1.1)

    def new_id(self, length: int = 8) -> str:
        return "".join(secrets.choice(_ALPHABET) for _ in range(length))


def to_moment(seconds: float, now: float) -> float:
    """Seconds from `now` to the common moment that is nearest to `now + seconds`.

    The moments are MOMENT_S apart, on the monotonic clock; what is shorter than that stays.
    """
    if seconds < MOMENT_S:
        return seconds
    return round((now + seconds) / MOMENT_S) * MOMENT_S - now


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
