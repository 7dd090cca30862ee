"""The processes on a GPU by NVML's C library itself: pynvml knows the calls of new drivers only.

Owns the layouts of their rows, of which there have been three.
"""

import ctypes
import struct
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

_SUCCESS, _INSUFFICIENT_SIZE = 0, 7
_TRIES = 3
_UNTOUCHED = 0xA5
_NO_INSTANCE = 0xFFFFFFFF
_NOT_TOLD = 0xFFFFFFFFFFFFFFFF

Ask = Callable[[Callable[[], Any]], Any]


class OnGpu(NamedTuple):
    """A process as the driver tells it."""

    pid: int
    memory_bytes: int | None
    instance: int | None
    """Of a GPU that is divided (MIG)."""


def processes(ask: Ask, py: Any, library: ctypes.CDLL, handles: list[Any]) -> list[OnGpu]:
    """Each process once, by PID: most are told as compute alone, some as graphics too."""
    found: dict[tuple[int, int | None], OnGpu] = {}
    for handle in handles:
        for kind in ("Graphics", "Compute"):
            rows = ask(partial(_running, py, library, handle, kind)) or []
            found |= {(one.pid, one.instance): one for one in rows}
    return [found[key] for key in sorted(found, key=lambda key: (key[0], key[1] or 0))]


def _running(py: Any, library: ctypes.CDLL, handle: Any, kind: str) -> list[OnGpu]:
    """Processes of a kind by the newest function that the driver has; none where it has none."""
    for version in ("_v3", "_v2", ""):
        name = f"nvmlDeviceGet{kind}RunningProcesses{version}"
        try:
            function = getattr(library, name)
        except AttributeError:
            continue
        return _rows(py, function, handle, with_instance=bool(version))
    return []


def _rows(py: Any, function: Any, handle: Any, *, with_instance: bool) -> list[OnGpu]:
    widest = 32
    count = ctypes.c_uint(0)
    status = function(handle, ctypes.byref(count), None)
    for _ in range(_TRIES):
        if status != _INSUFFICIENT_SIZE:
            break
        # More may have come between two calls.
        count.value = count.value * 2 + 5
        rows = ctypes.create_string_buffer(count.value * widest)
        ctypes.memset(rows, _UNTOUCHED, len(rows))
        status = function(handle, ctypes.byref(count), rows)
        if status == _SUCCESS:
            return unpacked(rows.raw, count.value, with_instance=with_instance)
    if status != _SUCCESS:
        raise py.NVMLError(status)
    return []


def unpacked(rows: bytes, count: int, *, with_instance: bool) -> list[OnGpu]:
    """The first `count` of NVML's process rows in memory that was all 0xA5 before.

    A row is 16 bytes in the first version and 24 after it; drivers 535.43 to 535.86 wrote 32
    under the same name, which is seen by how far they have written.
    """
    layout, size = ("<I4xQII", 24) if with_instance else ("<I4xQ", 16)
    if with_instance and any(byte != _UNTOUCHED for byte in rows[24 * count : 32 * count]):
        layout, size = "<I4xQII8x", 32
    found = []
    for pid, used, *instance in struct.iter_unpack(layout, rows[: size * count]):
        told = instance[0] if instance and instance[0] != _NO_INSTANCE else None
        found.append(OnGpu(pid, None if used == _NOT_TOLD else used, told))
    return found
