"""Slots on a drafter's GPU that the targets of its host write into, opened once by CUDA IPC.

The memory is taken from the driver, not from torch's allocator: expandable segments cannot be
shared. Which GPUs a process sees (CUDA_VISIBLE_DEVICES) does not matter, since the driver
finds the right one by the handle. It owns that memory and the copies; the ring's words are
ring.py's.
"""

import ctypes
from typing import Any

import torch
from torch import Tensor

PEER_ACCESS = 1
"""CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS."""


class _Handle(ctypes.Structure):
    _fields_ = (("reserved", ctypes.c_ubyte * 64),)  # type: ignore[mutable-override]  # as ctypes reads it


class DeviceSlots:
    """The slots, seen from the process that made them or from one that opened them."""

    def __init__(self, pointer: int, slot_bytes: int) -> None:
        self._pointer, self._slot_bytes = pointer, slot_bytes
        self._driver = _driver()

    @staticmethod
    def make(slots: int, slot_bytes: int) -> "DeviceSlots | None":
        """Slots on this process's GPU; None where it has no room for them."""
        pointer = ctypes.c_uint64()
        size = ctypes.c_size_t(slots * slot_bytes)
        if _driver().cuMemAlloc_v2(ctypes.byref(pointer), size):
            return None
        return DeviceSlots(pointer.value, slot_bytes)

    @staticmethod
    def open(handle: bytes, slot_bytes: int) -> "DeviceSlots | None":
        """The slots behind another process's handle; None without a way to that GPU."""
        pointer, there = ctypes.c_uint64(), _Handle.from_buffer_copy(handle)
        code = _driver().cuIpcOpenMemHandle_v2(ctypes.byref(pointer), there, PEER_ACCESS)
        return None if code else DeviceSlots(pointer.value, slot_bytes)

    @property
    def handle(self) -> bytes:
        """By which others open them; empty where the driver shares nothing."""
        handle = _Handle()
        code = self._driver.cuIpcGetMemHandle(
            ctypes.byref(handle), ctypes.c_uint64(self._pointer)
        )  # fmt: skip
        return b"" if code else bytes(handle)

    def free(self) -> None:
        """Give the memory back, by the process that made it."""
        self._driver.cuMemFree_v2(ctypes.c_uint64(self._pointer))

    def copy_in(self, slot: int, x: Tensor) -> None:
        """Copy the bytes `x` into a slot, in the current stream."""
        self._copy(self._pointer + slot * self._slot_bytes, x.data_ptr(), x)

    def copy_out(self, slot: int, x: Tensor) -> None:
        """Copy a slot into the bytes `x`, in the current stream."""
        self._copy(x.data_ptr(), self._pointer + slot * self._slot_bytes, x)

    def _copy(self, there: int, here: int, x: Tensor) -> None:
        stream = torch.cuda.current_stream(x.device).cuda_stream
        code = self._driver.cuMemcpyAsync(
            ctypes.c_uint64(there), ctypes.c_uint64(here), ctypes.c_size_t(x.numel()),
            ctypes.c_void_p(stream),
        )  # fmt: skip
        if code:
            raise RuntimeError(f"copying features between GPUs failed (CUDA error {code})")


def _driver() -> Any:
    return ctypes.CDLL("libcuda.so.1")
