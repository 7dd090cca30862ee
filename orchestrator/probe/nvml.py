"""One sample of every GPU by NVML, whatever version of the driver answers.

Owns NVML's life in this program, and what differs between drivers: what an old one lacks is asked
in the way that it knows. A value that the driver does not give is None; a GPU that is lost is a
sample with an `error` in its `extra`, never a missing one.
"""

import ctypes
import struct
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from .frames import Frame
from .holders import holder

LIBRARY = "libnvidia-ml.so.1"
LINKS_EVERY_S = 30.0
_SUCCESS, _INSUFFICIENT_SIZE = 0, 7
_TRIES = 3
_UNTOUCHED = 0xA5
_NO_INSTANCE = 0xFFFFFFFF
_NOT_TOLD = 0xFFFFFFFFFFFFFFFF

_loaded: "Nvml | None" = None

Ask = Callable[[Callable[[], Any]], Any]


class Nvml(NamedTuple):
    """pynvml, initialised, and the C library below it for what pynvml has no function for."""

    py: Any
    library: ctypes.CDLL
    links: dict[int, tuple[float, dict[str, int] | None]]
    """GPU -> when its NVLink errors were last looked at, and what they were."""


class _OnGpu(NamedTuple):
    """A process as the driver tells it."""

    pid: int
    memory_bytes: int | None
    instance: int | None
    """Of a GPU that is divided (MIG)."""


def load() -> Nvml:
    """NVML for this program; OSError where the library is not there, else pynvml's errors."""
    global _loaded  # NVML is one per program, as its C library is
    if _loaded is None:
        library = ctypes.CDLL(LIBRARY)
        import pynvml

        pynvml.nvmlInit()
        _loaded = Nvml(pynvml, library, {})
    return _loaded


def unload() -> None:
    """Let go of it; the next `load` starts afresh."""
    global _loaded  # as above
    nvml, _loaded = _loaded, None
    if nvml is None:
        return
    try:
        nvml.py.nvmlShutdown()
    except nvml.py.NVMLError:
        # It is in a bad way already.
        pass


def samples(nvml: Nvml, *, on_host: bool) -> list[Frame]:
    """One of each GPU; pynvml's NVMLError where the driver as a whole does not answer."""
    count = nvml.py.nvmlDeviceGetCount()
    return [_sample(nvml, index, on_host) for index in range(count)]


def _sample(nvml: Nvml, index: int, on_host: bool) -> Frame:
    py = nvml.py
    frame: Frame = {"index": index, "processes": [], "extra": {}}
    try:
        handle = py.nvmlDeviceGetHandleByIndex(index)
    except py.NVMLError as exc:
        frame["extra"]["error"] = str(exc)
        return frame

    def ask(question: Callable[[], Any]) -> Any:
        try:
            return question()
        except py.NVMLError_GpuIsLost as exc:
            frame["extra"]["error"] = str(exc)
        except py.NVMLError:
            # Not supported by this GPU, driver or permission: None says so.
            pass
        return None

    rates = ask(lambda: py.nvmlDeviceGetUtilizationRates(handle))
    milliwatts = ask(lambda: py.nvmlDeviceGetPowerUsage(handle))
    frame |= {
        "uuid": _text(ask(lambda: py.nvmlDeviceGetUUID(handle))),
        "name": _text(ask(lambda: py.nvmlDeviceGetName(handle))),
        "utilization_percent": float(rates.gpu) if rates else None,
        "power_w": milliwatts / 1000 if milliwatts is not None else None,
        "temperature_c": ask(lambda: py.nvmlDeviceGetTemperature(handle, py.NVML_TEMPERATURE_GPU)),
    }
    _add_memory(frame, ask, py, handle)
    for key, question in _extras(nvml, handle, index).items():
        value = ask(question)
        if value is not None:
            frame["extra"][key] = value
    parts = _parts(ask, py, handle) if frame["extra"].get("mig") else []
    if parts:
        frame["extra"]["mig_devices"] = [part for _, part in parts]
    frame["processes"] = [
        _told(one, on_host) for one in _on(ask, nvml, [handle, *(part for part, _ in parts)])
    ]
    return frame


def _add_memory(frame: Frame, ask: Ask, py: Any, handle: Any) -> None:
    """The second version leaves the driver's own reserve out, as nvidia-smi does."""
    memory = ask(lambda: py.nvmlDeviceGetMemoryInfo(handle, version=py.nvmlMemory_v2))
    if memory is None:
        # Before driver 510. On an idle H200 this call says that 615 MiB are used.
        memory = ask(lambda: py.nvmlDeviceGetMemoryInfo(handle))
        if memory is not None:
            frame["extra"]["reserve_unknown"] = True
    frame["memory_used_bytes"] = memory.used if memory else None
    frame["memory_total_bytes"] = memory.total if memory else None


def _extras(nvml: Nvml, handle: Any, index: int) -> dict[str, Callable[[], Any]]:
    py = nvml.py
    volatile = py.NVML_VOLATILE_ECC
    corrected = py.NVML_MEMORY_ERROR_TYPE_CORRECTED
    uncorrected = py.NVML_MEMORY_ERROR_TYPE_UNCORRECTED
    causes = (
        py.NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS,
        py.NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR,
    )
    return {
        "sm_clock_mhz": lambda: py.nvmlDeviceGetClockInfo(handle, py.NVML_CLOCK_SM),
        "memory_clock_mhz": lambda: py.nvmlDeviceGetClockInfo(handle, py.NVML_CLOCK_MEM),
        "throttle_reasons": lambda: py.nvmlDeviceGetCurrentClocksThrottleReasons(handle),
        "power_limit_w": lambda: py.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000,
        "ecc_corrected": lambda: py.nvmlDeviceGetTotalEccErrors(handle, corrected, volatile),
        "ecc_uncorrected": lambda: py.nvmlDeviceGetTotalEccErrors(handle, uncorrected, volatile),
        "remapped_rows": lambda: list(py.nvmlDeviceGetRemappedRows(handle)),
        "retired_pages": lambda: [
            len(py.nvmlDeviceGetRetiredPages(handle, cause)) for cause in causes
        ],
        "pages_to_retire": lambda: bool(py.nvmlDeviceGetRetiredPagesPendingStatus(handle)),
        "nvlink_errors": lambda: _nvlink_errors(nvml, handle, index),
        "pcie_replays": lambda: py.nvmlDeviceGetPcieReplayCounter(handle),
        "pci": lambda: _text(py.nvmlDeviceGetPciInfo(handle).busId),
        "mig": lambda: bool(py.nvmlDeviceGetMigMode(handle)[0]),
    }


def _nvlink_errors(nvml: Nvml, handle: Any, index: int) -> dict[str, int] | None:
    """Totals of all links by kind; looked at seldom, since an H200 needs 72 calls for them."""
    seen = nvml.links.get(index)
    if seen is None or time.monotonic() - seen[0] > LINKS_EVERY_S:
        seen = (time.monotonic(), _link_totals(nvml.py, handle))
        nvml.links[index] = seen
    return seen[1]


def _link_totals(py: Any, handle: Any) -> dict[str, int] | None:
    """By one call where the driver has totals, else link by link (H200 with driver 580)."""
    kinds = {
        "crc_flit": (
            py.NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL,
            py.NVML_NVLINK_ERROR_DL_CRC_FLIT,
        ),
        "crc_data": (
            py.NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL,
            py.NVML_NVLINK_ERROR_DL_CRC_DATA,
        ),
        "replay": (
            py.NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL,
            py.NVML_NVLINK_ERROR_DL_REPLAY,
        ),
        "recovery": (
            py.NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL,
            py.NVML_NVLINK_ERROR_DL_RECOVERY,
        ),
    }
    values = py.nvmlDeviceGetFieldValues(handle, [field for field, _ in kinds.values()])
    told = zip(kinds, values, strict=True)
    totals = {name: one.value.ullVal for name, one in told if one.nvmlReturn == _SUCCESS}
    if not totals:
        counts = ((name, _by_link(py, handle, kind)) for name, (_, kind) in kinds.items())
        totals = {name: count for name, count in counts if count is not None}
    return totals or None


def _by_link(py: Any, handle: Any, kind: int) -> int | None:
    total = None
    for link in range(py.NVML_NVLINK_MAX_LINKS):
        try:
            count = py.nvmlDeviceGetNvLinkErrorCounter(handle, link, kind)
        except py.NVMLError_GpuIsLost:
            raise
        except py.NVMLError:
            # No such link, or no such counter.
            break
        total = count + (total or 0)
    return total


def _parts(ask: Ask, py: Any, handle: Any) -> list[tuple[Any, Frame]]:
    """Handle and sample of each MIG device."""
    found = []
    for index in range(ask(lambda: py.nvmlDeviceGetMaxMigDeviceCount(handle)) or 0):
        part = ask(partial(py.nvmlDeviceGetMigDeviceHandleByIndex, handle, index))
        if part is None:
            continue
        memory = ask(partial(py.nvmlDeviceGetMemoryInfo, part))
        sample = {
            "index": index,
            "uuid": _text(ask(partial(py.nvmlDeviceGetUUID, part))),
            "instance": ask(partial(py.nvmlDeviceGetGpuInstanceId, part)),
            "memory_used_bytes": memory.used if memory else None,
            "memory_total_bytes": memory.total if memory else None,
        }
        found.append((part, sample))
    return found


# --- who is on it --------------------------------------------------------------------------------


def _on(ask: Ask, nvml: Nvml, handles: list[Any]) -> list[_OnGpu]:
    """Each process once, by PID: most are told as compute alone, some as graphics too."""
    found: dict[tuple[int, int | None], _OnGpu] = {}
    for handle in handles:
        for kind in ("Graphics", "Compute"):
            rows = ask(partial(_running, nvml, handle, kind)) or []
            found |= {(one.pid, one.instance): one for one in rows}
    return [found[key] for key in sorted(found, key=lambda key: (key[0], key[1] or 0))]


def _told(one: _OnGpu, on_host: bool) -> Frame:
    frame = holder(one.pid, one.memory_bytes, on_host=on_host)
    return frame if one.instance is None else {**frame, "gpu_instance": one.instance}


def _running(nvml: Nvml, handle: Any, kind: str) -> list[_OnGpu]:
    """Processes of a kind by the newest function that the driver has; none where it has none."""
    for version in ("_v3", "_v2", ""):
        name = f"nvmlDeviceGet{kind}RunningProcesses{version}"
        try:
            function = getattr(nvml.library, name)
        except AttributeError:
            continue
        return _rows(nvml, function, handle, with_instance=bool(version))
    return []


def _rows(nvml: Nvml, function: Any, handle: Any, *, with_instance: bool) -> list[_OnGpu]:
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
        raise nvml.py.NVMLError(status)
    return []


def unpacked(rows: bytes, count: int, *, with_instance: bool) -> list[_OnGpu]:
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
        found.append(_OnGpu(pid, None if used == _NOT_TOLD else used, told))
    return found


def _text(value: Any) -> str | None:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
