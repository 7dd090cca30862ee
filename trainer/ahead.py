"""The next step's plan, made in a thread while the device works on this one.

It owns one thread, which must call no compiled code: one thread of a process compiles
and runs it, and that is the training loop's.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

T = TypeVar("T")


class Ahead(Generic[T]):
    """Items by number, each asked for while the one before it is in use."""

    def __init__(self, make: Callable[[int], T]) -> None:
        self._make = make
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="plan-ahead")
        self._coming: tuple[int, Future[T]] | None = None

    def take(self, number: int) -> T:
        """Item `number`; item `number` + 1 is begun. Raises whatever making it raised."""
        if self._coming is None or self._coming[0] != number:
            self._coming = (number, self._thread.submit(self._make, number))
        item = self._coming[1].result()
        self._coming = (number + 1, self._thread.submit(self._make, number + 1))
        return item

    def close(self) -> None:
        """End the thread; an item in the making is finished and dropped."""
        self._thread.shutdown(cancel_futures=True)
