"""Op `gpus`: one sample of every GPU that is seen here, from NVML or else from nvidia-smi.

Owns NVML's life in this program. A value that the driver does not give is None; a GPU that is
lost is a sample with an `error` in its `extra`, never a missing one.
"""

import ctypes
import threading
import time
from collections.abc import Callable
from typing import Any

from . import smi
from .frames import Frame
from .holders import forget_others, holder
from .ops import Progress

LIBRARY = "libnvidia-ml.so.1"
FREE_BELOW_BYTES = 1024 * 1024 * 1024
"""Old drivers count their own reserve as used: 615 MiB on an idle H200."""
FREE_WITHIN_S = 15.0
FOREIGN_AFTER_S = 3.0
FREE_LOOK_S = 0.2

_lock = threading.Lock()
_nvml: Any = None


def sample_gpus(args: Frame, _progress: Progress) -> Frame:
    """`source`, `samples` and `error`; source None and no sample where there is no driver.

    With `host` the PIDs that the driver gives are those of this place.
    """
    on_host = bool(args.get("host"))
    with _lock:
        frame = _sample_all(on_host)
        forget_others({one["pid"] for gpu in frame["samples"] for one in gpu["processes"]})
        return frame


def _sample_all(on_host: bool) -> Frame:
    try:
        nvml = _load()
    except OSError:
        # No such library: nvidia-smi may still be there (it links the same one), or no GPU is.
        return smi.sample(on_host=on_host)
    except Exception as exc:  # noqa: BLE001  pynvml's errors; its module may not be imported
        return _fallback(exc, on_host)
    try:
        count = nvml.nvmlDeviceGetCount()
        samples = [_sample(nvml, index, on_host) for index in range(count)]
    except nvml.NVMLError as exc:
        _unload()
        return _fallback(exc, on_host)
    return {"source": "nvml", "samples": samples, "error": None}


def _fallback(exc: Exception, on_host: bool) -> Frame:
    frame = smi.sample(on_host=on_host)
    if not frame["samples"]:
        frame["source"] = frame["source"] or "nvml"
        frame["error"] = frame["error"] or f"NVML: {exc}"
    return frame


def _load() -> Any:
    """pynvml, initialised; OSError where the library is not there."""
    global _nvml  # NVML is one per program, as its C library is
    if _nvml is None:
        ctypes.CDLL(LIBRARY)
        import pynvml

        pynvml.nvmlInit()
        _nvml = pynvml
    return _nvml


def _unload() -> None:
    global _nvml  # as above
    nvml, _nvml = _nvml, None
    try:
        nvml.nvmlShutdown()
    except nvml.NVMLError:
        # It is in a bad way already; the next sample starts afresh.
        pass


def _sample(nvml: Any, index: int, on_host: bool) -> Frame:
    frame: Frame = {"index": index, "processes": [], "extra": {}}
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
    except nvml.NVMLError as exc:
        frame["extra"]["error"] = str(exc)
        return frame

    def ask(question: Callable[[], Any]) -> Any:
        try:
            return question()
        except nvml.NVMLError_GpuIsLost as exc:
            frame["extra"]["error"] = str(exc)
        except nvml.NVMLError:
            # Not supported by this GPU, driver or permission: None says so.
            pass
        return None

    # Version 2 leaves the driver's own reserve out, as nvidia-smi does; old drivers lack it.
    memory = ask(lambda: nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)) or ask(
        lambda: nvml.nvmlDeviceGetMemoryInfo(handle)
    )
    rates = ask(lambda: nvml.nvmlDeviceGetUtilizationRates(handle))
    milliwatts = ask(lambda: nvml.nvmlDeviceGetPowerUsage(handle))
    frame |= {
        "uuid": _text(ask(lambda: nvml.nvmlDeviceGetUUID(handle))),
        "name": _text(ask(lambda: nvml.nvmlDeviceGetName(handle))),
        "memory_used_bytes": memory.used if memory else None,
        "memory_total_bytes": memory.total if memory else None,
        "utilization_percent": float(rates.gpu) if rates else None,
        "power_w": milliwatts / 1000 if milliwatts is not None else None,
        "temperature_c": ask(
            lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)
        ),
    }
    for key, question in _extras(nvml, handle).items():
        value = ask(question)
        if value is not None:
            frame["extra"][key] = value
    frame["processes"] = _holders(ask, nvml, handle, on_host)
    return frame


def _extras(nvml: Any, handle: Any) -> dict[str, Callable[[], Any]]:
    volatile = nvml.NVML_VOLATILE_ECC
    corrected = nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED
    uncorrected = nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED
    return {
        "sm_clock_mhz": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
        "memory_clock_mhz": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM),
        "throttle_reasons": lambda: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle),
        "power_limit_w": lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000,
        "ecc_corrected": lambda: nvml.nvmlDeviceGetTotalEccErrors(handle, corrected, volatile),
        "ecc_uncorrected": lambda: nvml.nvmlDeviceGetTotalEccErrors(handle, uncorrected, volatile),
        "remapped_rows": lambda: list(nvml.nvmlDeviceGetRemappedRows(handle)),
        "pcie_replays": lambda: nvml.nvmlDeviceGetPcieReplayCounter(handle),
        "pci": lambda: _text(nvml.nvmlDeviceGetPciInfo(handle).busId),
        "mig": lambda: bool(nvml.nvmlDeviceGetMigMode(handle)[0]),
    }


def _holders(
    ask: Callable[[Callable[[], Any]], Any], nvml: Any, handle: Any, on_host: bool
) -> list[Frame]:
    compute = ask(lambda: nvml.nvmlDeviceGetComputeRunningProcesses(handle)) or []
    graphics = ask(lambda: nvml.nvmlDeviceGetGraphicsRunningProcesses(handle)) or []
    memory = {item.pid: item.usedGpuMemory for item in [*graphics, *compute]}
    return [holder(pid, used, on_host=on_host) for pid, used in sorted(memory.items())]


def _text(value: Any) -> str | None:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def await_free(progress: Progress) -> tuple[float | None, list[Frame]]:
    """Seconds until all GPUs were free (None: not in time, or no GPU), and who holds them."""
    begun = time.monotonic()
    while True:
        samples = sample_gpus({}, progress)["samples"]
        if not samples:
            return None, []
        waited = time.monotonic() - begun
        held = [s for s in samples if (s.get("memory_used_bytes") or 0) > FREE_BELOW_BYTES]
        if not held:
            return round(waited, 2), []
        holders = [{"gpu": s["index"], **holder} for s in held for holder in s["processes"]]
        if waited > FREE_WITHIN_S or (holders and waited > FOREIGN_AFTER_S):
            return None, holders or [
                {"gpu": s["index"], "pid": None, "memory_bytes": s["memory_used_bytes"]}
                for s in held
            ]
        progress({"phase": "gpus", "held": [s["index"] for s in held]})
        time.sleep(FREE_LOOK_S)


OPS = {"gpus": sample_gpus}
