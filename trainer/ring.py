"""Features on their way from targets to one drafter.

A fixed ring of slots: no allocation, no collective, bounded. A target that finds no free slot
waits (back-pressure), a drafter that finds none filled too. The slots lie on the drafter's GPU
where its targets can open that (device_slots.py), else in memory that all map, pinned on CUDA so
that both copies run beside the computation. It owns the words that say which slot is whose and
the count of time spent waiting; whose turn it is, is schedule.py's.
"""

import mmap
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from trainer.device_slots import DeviceSlots

HEADER = 4096
CONSUMED, CLOSED, READY, SHARES = 0, 1, 2, 64
NAP_S = 0.0005


class RingError(RuntimeError):
    """A ring that cannot be made or opened; its text says the size and the remedy."""


class Ring:
    """One drafter's ring: it is made by the drafter and opened by each target of its host."""

    def __init__(self, handle: int, slots: int, slot_bytes: int) -> None:
        self._map = mmap.mmap(handle, HEADER + slots * slot_bytes)
        self._words = memoryview(self._map).cast("q")
        """Aligned words: each is stored whole, and the slot before the word that says so."""
        self._slots, self._slot_bytes, self._handle = slots, slot_bytes, handle
        self._memory = torch.frombuffer(self._map, dtype=torch.uint8)
        self._device: DeviceSlots | None = None
        self._leaving: tuple[int, torch.cuda.Event | None] | None = None
        self.waited_s = 0.0

    @staticmethod
    def make(slots: int, slot_bytes: int) -> "Ring":
        """A new ring, whose slots have no memory yet."""
        handle = os.memfd_create("drafter-ring")
        os.ftruncate(handle, HEADER + slots * slot_bytes)
        return Ring(handle, slots, slot_bytes)

    @property
    def path(self) -> str:
        """Where another process of this host and user opens it; gone with its maker."""
        return f"/proc/{os.getpid()}/fd/{self._handle}"

    @staticmethod
    def open(path: str, slots: int, slot_bytes: int) -> "Ring":
        """Open the ring that another process made. Raises RingError."""
        try:
            return Ring(os.open(path, os.O_RDWR), slots, slot_bytes)
        except OSError as error:
            raise RingError(
                f"a drafter's ring cannot be opened ({error}): targets and drafters of a host must "
                "run as one user in one container"
            ) from error

    def use_device(self, slots: DeviceSlots) -> None:
        """Let the slots lie on the drafter's GPU."""
        self._device = slots

    def use_memory(self, *, pinned: bool, take: bool) -> None:
        """Let the slots lie in memory; with `take`, which the maker gives, it is taken at once.

        Raises RingError where there is too little.
        """
        self._device = None
        size = HEADER + self._slots * self._slot_bytes
        if take:
            free = _available()
            if size > free:
                raise RingError(
                    f"a ring of {self._slots} slots needs {size} bytes of memory and {free} are "
                    "free: lower layout.slots, optim.rows or corpus.row_tokens"
                )
            os.posix_fallocate(self._handle, 0, size)
        if pinned:
            _pin(self._memory)

    @property
    def place(self) -> str:
        """Where the slots lie, for a person."""
        return "host memory" if self._device is None else "GPU memory"

    def put(self, number: int, x: Tensor, check: Callable[[float], None]) -> bool:
        """Lay `x` down as item `number` (from 0); False if the drafter wants no more.

        `check` is called while waiting with the seconds so far, and may raise.
        """
        if not self.await_free(number, check):
            return False
        flat = x.contiguous().flatten().view(torch.uint8)
        if self._device is None:
            self.slot(number)[: len(flat)].copy_(flat, non_blocking=True)
        else:
            self._device.copy_in(number % self._slots, flat)
        if x.is_cuda:
            torch.cuda.current_stream(x.device).synchronize()
        self.mark_ready(number)
        return True

    def await_free(self, number: int, check: Callable[[float], None]) -> bool:
        """Wait until item `number` may be laid down; False if the drafter wants no more."""
        words, free = self._words, number - self._slots
        self._wait(lambda: words[CONSUMED] > free or bool(words[CLOSED]), check)
        return not words[CLOSED]

    def mark_ready(self, number: int) -> None:
        """Say that item `number` lies in its slot."""
        self._words[READY + number % self._slots] = number + 1

    def take(
        self, number: int, shape: Sequence[int], dtype: torch.dtype, device: torch.device,
        check: Callable[[float], None],
    ) -> Tensor:  # fmt: skip
        """Item `number`, copied to `device`; its slot is free once that copy is done."""
        words = self._words
        self.release()
        self._wait(lambda: words[READY + number % self._slots] == number + 1, check)
        x = torch.empty(tuple(shape), dtype=dtype, device=device)
        flat = x.flatten().view(torch.uint8)
        if self._device is None:
            flat.copy_(self.slot(number)[: len(flat)], non_blocking=True)
        else:
            self._device.copy_out(number % self._slots, flat)
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

    @property
    def closed(self) -> bool:
        """Whether nothing more is wanted."""
        return bool(self._words[CLOSED])

    def note(self, target: int, busy_s: float, idle_s: float) -> None:
        """A target's seconds so far, for the drafter to report."""
        at = SHARES + 2 * target
        self._words[at], self._words[at + 1] = int(busy_s * 1e9), int(idle_s * 1e9)

    def noted(self, targets: int) -> tuple[float, float]:
        """Busy and idle seconds, summed over the targets."""
        words = self._words[SHARES : SHARES + 2 * targets].tolist()
        return sum(words[::2]) / 1e9, sum(words[1::2]) / 1e9

    def slot(self, number: int) -> Tensor:
        """The bytes of item `number`'s slot, where slots lie in memory."""
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
