"""The lock remedies: around a first call only, or readers and a writer around every step.

It owns when a thread may run a step; it knows nothing of what the step does.
"""

import contextlib
import threading
from collections.abc import Hashable, Iterator


class FirstCallLock:
    """One thread at a time in the first step of each key; later steps are free.

    It does not help: a neighbour whose keys are all seen calls compiled code meanwhile.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: set[Hashable] = set()

    @contextlib.contextmanager
    def step(self, key: Hashable) -> Iterator[None]:
        """Hold the lock if this thread's `key` is new."""
        mine = (threading.get_ident(), key)
        if mine in self._seen:
            yield
            return
        with self._lock:
            yield
        self._seen.add(mine)


class ReadersWriterLock:
    """Steps of a seen key run side by side; an unseen key waits for all and runs alone.

    It helps as far as the key holds everything that is compiled for: shape, device,
    dtype, gradient mode.
    """

    def __init__(self) -> None:
        self._turn = threading.Condition()
        self._readers = 0
        self._writing = False
        self._seen: set[Hashable] = set()

    @contextlib.contextmanager
    def step(self, key: Hashable) -> Iterator[None]:
        """Run alone if `key` is new, else beside the others."""
        alone = self._enter(key)
        try:
            yield
        finally:
            self._leave(key, alone=alone)

    def _enter(self, key: Hashable) -> bool:
        with self._turn:
            while True:
                if key in self._seen and not self._writing:
                    self._readers += 1
                    return False
                if key not in self._seen and not self._writing and not self._readers:
                    self._writing = True
                    return True
                self._turn.wait()

    def _leave(self, key: Hashable, *, alone: bool) -> None:
        with self._turn:
            if alone:
                self._writing = False
                self._seen.add(key)
            else:
                self._readers -= 1
            self._turn.notify_all()
