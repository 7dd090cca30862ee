"""What has happened to one run and is still to be decided, in the order in which it came.

Owns what of it outlives a failure of whoever decides. Must not: decide.
"""

import asyncio

from orchestrator.core.decide.inputs import SAID, Input

MOST = 100


class Inbox:
    """Inputs for one supervisor."""

    def __init__(self) -> None:
        self._waiting: asyncio.Queue[Input] = asyncio.Queue(maxsize=MOST)
        self._deciding: Input | None = None

    async def put(self, event: Input) -> None:
        """Something that was seen; waits for room."""
        await self._waiting.put(event)

    def tell(self, event: Input) -> None:
        """Something a person said; asyncio.QueueFull where far too much waits."""
        self._waiting.put_nowait(event)

    async def get(self) -> Input:
        """The next one; the one before is decided by now."""
        self._deciding = None
        self._deciding = await self._waiting.get()
        return self._deciding

    def empty(self) -> bool:
        """Whether nothing waits."""
        return self._waiting.empty()

    def unheard(self) -> tuple[Input, ...]:
        """What was said and a failure kept from being decided; the rest will be seen again."""
        left = [] if self._deciding is None else [self._deciding]
        while not self._waiting.empty():
            left.append(self._waiting.get_nowait())
        return tuple(event for event in left if isinstance(event, SAID))
