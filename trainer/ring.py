"""Features on their way from the targets of a host to one of its drafters.

A fixed ring of slots in memory that both map: no allocation, no collective, bounded. A
target that finds no free slot waits (back-pressure), a drafter that finds none filled
too. On CUDA the ring is pinned, so that both copies run beside the computation. It owns
the ring and the count of time spent waiting; whose turn it is, is schedule.py's.
"""

import mmap
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor

HEADER = 4096
CONSUMED, CLOSED, READY, SHARES = 0, 1, 2, 64
MAX_SLOTS = SHARES - READY
NAP_S = 0.0005


class RingError(RuntimeError):
    """A ring that cannot be made or opened; its text says the size and the remedy."""


class Ring:
    """One drafter's ring: it is made by the drafter and opened by each target of its host."""

    def __init__(self, handle: int, slots: int, slot_bytes: int, *, pinned: bool) -> None:
        size = HEADER + slots * slot_bytes
        self._map = mmap.mmap(handle, size)
        self._words = memoryview(self._map).cast("q")
        """Aligned words: each is stored whole, and the slot before the word that says so."""
        self._slots, self._slot_bytes, self._handle = slots, slot_bytes, handle
        self._memory = torch.frombuffer(self._map, dtype=torch.uint8)
        self._leaving: tuple[int, torch.cuda.Event | None] | None = None
        self.waited_s = 0.0
        if pinned:
            _pin(self._memory)

    @staticmethod
    def make(slots: int, slot_bytes: int, *, pinned: bool) -> "Ring":
        """A new ring, its memory taken at once. Raises RingError where there is too little."""
        size = HEADER + slots * slot_bytes
        free = _available()
        if size > free:
            raise RingError(
                f"a ring of {slots} slots needs {size} bytes of memory and {free} are free: lower "
                "layout.slots, optim.rows or corpus.row_tokens"
            )
        handle = os.memfd_create("drafter-ring")
        os.posix_fallocate(handle, 0, size)
        return Ring(handle, slots, slot_bytes, pinned=pinned)

    @property
    def path(self) -> str:
        """Where another process of this host and user opens it; gone with its maker."""
        return f"/proc/{os.getpid()}/fd/{self._handle}"

    @staticmethod
    def open(path: str, slots: int, slot_bytes: int, *, pinned: bool) -> "Ring":
        """Open the ring that another process made. Raises RingError."""
        try:
            return Ring(os.open(path, os.O_RDWR), slots, slot_bytes, pinned=pinned)
        except OSError as error:
            raise RingError(
                f"a drafter's ring cannot be opened ({error}): targets and drafters of a host must "
                "run as one user in one container"
            ) from error

    def put(self, number: int, x: Tensor, check: Callable[[float], None]) -> bool:
        """Lay `x` down as item `number` (from 0); False if the drafter wants no more.

        `check` is called while waiting with the seconds so far, and may raise.
        """
        words = self._words
        free = number - self._slots
        self._wait(lambda: words[CONSUMED] > free or bool(words[CLOSED]), check)
        if words[CLOSED]:
            return False
        flat = x.contiguous().flatten().view(torch.uint8)
        slot = self._slot(number)[: len(flat)]
        slot.copy_(flat, non_blocking=True)
        if x.is_cuda:
            torch.cuda.current_stream(x.device).synchronize()
        words[READY + number % self._slots] = number + 1
        return True

    def take(
        self, number: int, shape: Sequence[int], dtype: torch.dtype, device: torch.device,
        check: Callable[[float], None],
    ) -> Tensor:  # fmt: skip
        """Item `number`, copied to `device`; its slot is free once that copy is done."""
        words = self._words
        self.release()
        self._wait(lambda: words[READY + number % self._slots] == number + 1, check)
        size = torch.Size(shape).numel() * dtype.itemsize
        there = self._slot(number)[:size].view(dtype).view(tuple(shape))
        x = there.to(device, non_blocking=True) if device.type == "cuda" else there.clone()
        event = None
        if device.type == "cuda":
            event = torch.cuda.Event()
            event.record()
        self._leaving = (number, event)
        if event is None:
            self.release()
        return x

    def release(self) -> None:
        """Free the slot of the item taken last, once it is copied."""
        if self._leaving is not None:
            number, event = self._leaving
            self._leaving = None
            if event is not None:
                event.synchronize()
            self._words[CONSUMED] = number + 1

    def close(self) -> None:
        """Say that nothing more is wanted: waiting targets go."""
        self._words[CLOSED] = 1

    def note(self, target: int, busy_s: float, idle_s: float) -> None:
        """A target's seconds so far, for the drafter to report."""
        at = SHARES + 2 * target
        self._words[at], self._words[at + 1] = int(busy_s * 1e9), int(idle_s * 1e9)

    def noted(self, targets: int) -> tuple[float, float]:
        """Busy and idle seconds, summed over the targets."""
        words = self._words[SHARES : SHARES + 2 * targets].tolist()
        return sum(words[::2]) / 1e9, sum(words[1::2]) / 1e9

    def _slot(self, number: int) -> Tensor:
        start = HEADER + number % self._slots * self._slot_bytes
        return self._memory[start : start + self._slot_bytes]

    def _wait(self, ready: Callable[[], bool], check: Callable[[float], None]) -> None:
        began = time.monotonic()
        while not ready():
            check(time.monotonic() - began)
            time.sleep(NAP_S)
        self.waited_s += time.monotonic() - began


def _available() -> int:
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    amounts = dict(line.split(":") for line in lines)
    return int(amounts["MemAvailable"].split()[0]) * 1024


def _pin(memory: Tensor) -> None:
    code = torch.cuda.cudart().cudaHostRegister(memory.data_ptr(), memory.numel(), 0)
    if int(code) != 0:
        raise RingError(f"a ring of {memory.numel()} bytes cannot be pinned (CUDA error {code})")
