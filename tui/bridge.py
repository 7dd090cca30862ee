"""Runs blocking calls in threads that never hold up the end of the program.

asyncio's own threads are waited for when the loop ends, so a daemon that does not answer would
keep `q` from quitting; these threads are daemonic instead.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TypeVar

T = TypeVar("T")
MAX_WAITING = 1000


async def in_thread(call: Callable[[], T]) -> T:
    """The result of a blocking call, or what it raises."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]  # None is a T where call gives it

    def work() -> None:
        result: T | None = None
        error: BaseException | None = None
        try:
            result = call()
        except BaseException as exc:  # noqa: BLE001  raised again where it is awaited
            error = exc
        _tell(loop, settle, result, error)

    threading.Thread(target=work, daemon=True, name="orch-call").start()
    return await future


async def iterate(make: Callable[[], Iterator[T]]) -> AsyncIterator[T]:
    """The items of a blocking iterator as they come; it waits where nobody takes them."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[T | _End] = asyncio.Queue()
    room = threading.BoundedSemaphore(MAX_WAITING)
    left = threading.Event()

    def work() -> None:
        error: BaseException | None = None
        try:
            for item in make():
                room.acquire()
                if left.is_set() or not _tell(loop, queue.put_nowait, item):
                    return
        except BaseException as exc:  # noqa: BLE001  raised again where it is awaited
            error = exc
        _tell(loop, queue.put_nowait, _End(error))

    threading.Thread(target=work, daemon=True, name="orch-stream").start()
    try:
        while True:
            item = await queue.get()
            if isinstance(item, _End):
                if item.error is not None:
                    raise item.error
                return
            room.release()
            yield item
    finally:
        left.set()


class _End:
    def __init__(self, error: BaseException | None) -> None:
        self.error = error


def _tell(loop: asyncio.AbstractEventLoop, call: Callable[..., object], *args: object) -> bool:
    """Call in the loop; False where the program has ended meanwhile."""
    try:
        loop.call_soon_threadsafe(call, *args)
    except RuntimeError:
        return False
    return True
