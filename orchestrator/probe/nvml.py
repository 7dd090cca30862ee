"""One sample of every GPU by NVML, whatever version of the driver answers.

Owns NVML's life in this program, and what differs between drivers: what an old one lacks is asked
in the way that it knows. A value that the driver does not give is None; a GPU that is lost is a
sample with an `error` in its `extra`, never a missing one.
"""

import ctypes
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from . import on_gpu
from .frames import Frame
from .holders import holder

LIBRARY = "libnvidia-ml.so.1"
WEAR_EVERY_S = 30.0
LINKS_EVERY_S = 300.0
"""All links of one H200 take 50 ms of CPU."""
_SUCCESS = 0
_MOST_EVENTS = 100

_loaded: "Nvml | None" = None

Ask = Callable[[Callable[[], Any]], Any]


class _Seldom(NamedTuple):
    at: float
    values: Frame
    links_at: float
    links: Any


class Nvml(NamedTuple):
    """pynvml, initialised, and the C library below it for what pynvml has no function for."""

    py: Any
    library: ctypes.CDLL
    seldom: dict[int, _Seldom]
    """GPU -> what is asked seldom."""
    events: Any
    """NVML's set of events, None where the driver has none for us."""
    xids: dict[str, tuple[int, float]]
    """PCI address -> newest Xid of that GPU, and when it was seen."""


def load() -> Nvml:
    """NVML for this program; OSError where the library is not there, else pynvml's errors."""
    global _loaded  # NVML is one per program, as its C library is
    if _loaded is None:
        library = ctypes.CDLL(LIBRARY)
        import pynvml

        pynvml.nvmlInit()
        _loaded = Nvml(pynvml, library, {}, _listening(pynvml), {})
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


def _listening(py: Any) -> Any:
    """Listen for Xids: a container hears of them so that may not read the kernel's log."""
    try:
        events = py.nvmlEventSetCreate()
        for index in range(py.nvmlDeviceGetCount()):
            handle = py.nvmlDeviceGetHandleByIndex(index)
            py.nvmlDeviceRegisterEvents(handle, py.nvmlEventTypeXidCriticalError, events)
    except py.NVMLError:
        # Not here, or not for us, or a GPU is lost: then the kernel's log is what there is.
        return None
    return events


def _hear(nvml: Nvml) -> None:
    """Take the Xids that have come since; never waits."""
    for _ in range(_MOST_EVENTS):
        try:
            event = nvml.py.nvmlEventSetWait_v2(nvml.events, 0)
            pci = _text(nvml.py.nvmlDeviceGetPciInfo(event.device).busId)
        except nvml.py.NVMLError:
            return
        if pci is not None:
            nvml.xids[pci] = (int(event.eventData), time.time())


def samples(nvml: Nvml, *, on_host: bool) -> list[Frame]:
    """One of each GPU; pynvml's NVMLError where the driver as a whole does not answer."""
    count = nvml.py.nvmlDeviceGetCount()
    if nvml.events is not None:
        _hear(nvml)
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
    for key, question in _extras(py, handle).items():
        value = ask(question)
        if value is not None:
            frame["extra"][key] = value
    frame["extra"] |= _seldom(nvml, ask, handle, index)
    xid = nvml.xids.get(frame["extra"].get("pci") or "")
    if xid is not None:
        frame["extra"]["xid"], frame["extra"]["xid_at"] = xid
    parts = _parts(ask, py, handle) if frame["extra"].get("mig") else []
    if parts:
        frame["extra"]["mig_devices"] = [part for _, part in parts]
    handles = [handle, *(part for part, _ in parts)]
    frame["processes"] = [
        _told(one, on_host) for one in on_gpu.processes(ask, py, nvml.library, handles)
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


def _extras(py: Any, handle: Any) -> dict[str, Callable[[], Any]]:
    volatile = py.NVML_VOLATILE_ECC
    corrected = py.NVML_MEMORY_ERROR_TYPE_CORRECTED
    uncorrected = py.NVML_MEMORY_ERROR_TYPE_UNCORRECTED
    return {
        "sm_clock_mhz": lambda: py.nvmlDeviceGetClockInfo(handle, py.NVML_CLOCK_SM),
        "memory_clock_mhz": lambda: py.nvmlDeviceGetClockInfo(handle, py.NVML_CLOCK_MEM),
        "throttle_reasons": lambda: py.nvmlDeviceGetCurrentClocksThrottleReasons(handle),
        "power_limit_w": lambda: py.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000,
        "ecc_corrected": lambda: py.nvmlDeviceGetTotalEccErrors(handle, corrected, volatile),
        "ecc_uncorrected": lambda: py.nvmlDeviceGetTotalEccErrors(handle, uncorrected, volatile),
    }


def _wear(nvml: Nvml, handle: Any) -> dict[str, Callable[[], Any]]:
    """What changes seldom or never; some of it takes a tenth of a millisecond to ask."""
    py = nvml.py
    causes = (
        py.NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS,
        py.NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR,
    )
    return {
        "remapped_rows": lambda: list(py.nvmlDeviceGetRemappedRows(handle)),
        "retired_pages": lambda: [
            len(py.nvmlDeviceGetRetiredPages(handle, cause)) for cause in causes
        ],
        "pages_to_retire": lambda: bool(py.nvmlDeviceGetRetiredPagesPendingStatus(handle)),
        "pcie_replays": lambda: py.nvmlDeviceGetPcieReplayCounter(handle),
        "pci": lambda: _text(py.nvmlDeviceGetPciInfo(handle).busId),
        "architecture": lambda: "sm_{}{}".format(*py.nvmlDeviceGetCudaComputeCapability(handle)),
        "mig": lambda: bool(py.nvmlDeviceGetMigMode(handle)[0]),
    }


def _seldom(nvml: Nvml, ask: Ask, handle: Any, index: int) -> Frame:
    """The values of _wear and of the links, as they were when they were last asked."""
    now, old = time.monotonic(), nvml.seldom.get(index)
    if old is None or now - old.at > WEAR_EVERY_S:
        values = {key: ask(question) for key, question in _wear(nvml, handle).items()}
        links_at, links = (old.links_at, old.links) if old else (float("-inf"), None)
        if now - links_at > LINKS_EVERY_S:
            links_at, links = now, ask(partial(_link_totals, nvml.py, handle))
        old = _Seldom(now, {**values, "nvlink_errors": links}, links_at, links)
        nvml.seldom[index] = old
    return {key: value for key, value in old.values.items() if value is not None}


def _link_totals(py: Any, handle: Any) -> dict[str, int] | None:
    """By one call where the driver has totals, else link by link (H200 with driver 580).

    Errors in data are left out: on an idle H200 that counter grows by itself.
    """
    kinds = {
        "crc_flit": (
            py.NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL,
            py.NVML_NVLINK_ERROR_DL_CRC_FLIT,
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


def _text(value: Any) -> str | None:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _told(one: on_gpu.OnGpu, on_host: bool) -> Frame:
    frame = holder(one.pid, one.memory_bytes, on_host=on_host)
    return frame if one.instance is None else {**frame, "gpu_instance": one.instance}
