"""GPU samples from `nvidia-smi`, for where NVML itself cannot be loaded.

Owns two queries (GPUs, and processes on them) and their CSV. `[N/A]`, `[Not Supported]`, `ERR!`
and the like are None.
"""

import os
import re
import subprocess

from .frames import Frame
from .holders import holder

COLUMNS = (
    "index", "uuid", "name", "memory.used", "memory.total", "utilization.gpu", "power.draw",
    "temperature.gpu", "driver_version", "pci.bus_id", "power.limit", "clocks.sm", "clocks.mem",
    "clocks_throttle_reasons.active", "ecc.errors.corrected.volatile.total",
    "ecc.errors.uncorrected.volatile.total", "mig.mode.current",
)  # fmt: skip
APPS = "gpu_uuid,gpu_bus_id,pid,used_memory"
WITHIN_S = 20.0
RESERVE_APART = 510
"""Drivers before this one do not tell their own reserve of memory from what is used."""
_MIB = 1024 * 1024
_UNKNOWN_COLUMN = re.compile(r'Field "([^"]+)" is not a valid field')


def sample(*, on_host: bool) -> Frame:
    """Frame fields `source`, `samples`, `error`; source None where there is no nvidia-smi."""
    if not _is_there():
        return {"source": None, "samples": [], "error": None}
    try:
        columns, done = _query(COLUMNS)
    except FileNotFoundError:
        return {"source": None, "samples": [], "error": None}
    except (OSError, subprocess.TimeoutExpired) as exc:
        return {"source": "nvidia-smi", "samples": [], "error": f"nvidia-smi: {exc}"}
    text = done.stdout.decode("utf-8", "replace")
    samples = parse(text, columns)
    if samples:
        _join(samples, on_host=on_host)
    complaint = None
    if done.returncode != 0 or not samples:
        said = _without_rows(text, columns) or done.stderr.decode("utf-8", "replace").strip()
        complaint = f"nvidia-smi ended with {done.returncode}: {said[:500]}"
    return {"source": "nvidia-smi", "samples": samples, "error": complaint}


def _is_there() -> bool:
    """Looked for first: a fork that finds nothing to run costs more."""
    return any(os.path.exists(os.path.join(folder, "nvidia-smi")) for folder in os.get_exec_path())


def _query(
    columns: tuple[str, ...],
) -> tuple[tuple[str, ...], "subprocess.CompletedProcess[bytes]"]:
    """The answer to a query, without the columns that this driver does not know."""
    while True:
        argv = ["nvidia-smi", f"--query-gpu={','.join(columns)}", "--format=csv,noheader"]
        done = subprocess.run(argv, capture_output=True, timeout=WITHIN_S, check=False)
        unknown = _UNKNOWN_COLUMN.search(done.stdout.decode("utf-8", "replace"))
        if unknown is None or unknown[1] not in columns:
            return columns, done
        columns = tuple(column for column in columns if column != unknown[1])


def parse(text: str, columns: tuple[str, ...] = COLUMNS) -> list[Frame]:
    """Samples of the lines that are rows of the columns; complaints are passed over."""
    return [_frame(row) for row in _rows(text, columns)]


def _rows(text: str, columns: tuple[str, ...]) -> list[dict[str, str]]:
    rows = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(", ")]
        if len(cells) == len(columns) and cells[0].isdigit():
            rows.append(dict(zip(columns, cells, strict=True)))
    return rows


def _without_rows(text: str, columns: tuple[str, ...]) -> str:
    """What else was said."""
    lines = [line.strip() for line in text.splitlines() if not _rows(line, columns)]
    return "\n".join(filter(None, lines))


def _frame(row: dict[str, str]) -> Frame:
    used, total = _number(row, "memory.used"), _number(row, "memory.total")
    return {
        "index": int(row["index"]),
        "uuid": _text(row, "uuid"),
        "name": _text(row, "name"),
        "memory_used_bytes": None if used is None else int(used * _MIB),
        "memory_total_bytes": None if total is None else int(total * _MIB),
        "utilization_percent": _number(row, "utilization.gpu"),
        "power_w": _number(row, "power.draw"),
        "temperature_c": _number(row, "temperature.gpu"),
        "processes": [],
        "extra": {key: value for key, value in _extra(row).items() if value is not None},
    }


def _extra(row: dict[str, str]) -> Frame:
    """As nvml.py names them; None where not told."""
    driver = (_text(row, "driver_version") or "").partition(".")[0]
    reasons = _text(row, "clocks_throttle_reasons.active")
    mode = _text(row, "mig.mode.current")
    return {
        "reserve_unknown": True if driver.isdigit() and int(driver) < RESERVE_APART else None,
        "pci": _text(row, "pci.bus_id"),
        "power_limit_w": _number(row, "power.limit"),
        "sm_clock_mhz": _count(row, "clocks.sm"),
        "memory_clock_mhz": _count(row, "clocks.mem"),
        "throttle_reasons": int(reasons, 16) if reasons and reasons.startswith("0x") else None,
        "ecc_corrected": _count(row, "ecc.errors.corrected.volatile.total"),
        "ecc_uncorrected": _count(row, "ecc.errors.uncorrected.volatile.total"),
        "mig": None if mode is None else mode == "Enabled",
        "error": "GPU is lost" if "[GPU is lost]" in row.values() else None,
    }


def _join(samples: list[Frame], *, on_host: bool) -> None:
    """Add the processes; a driver that tells of none leaves the samples as they are."""
    argv = ["nvidia-smi", f"--query-compute-apps={APPS}", "--format=csv,noheader"]
    try:
        done = subprocess.run(argv, capture_output=True, timeout=WITHIN_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return
    columns = tuple(APPS.split(","))
    for line in done.stdout.decode("utf-8", "replace").splitlines():
        cells = [cell.strip() for cell in line.split(", ")]
        if len(cells) != len(columns) or not cells[2].isdigit():
            continue
        used = _number({"used_memory": cells[3]}, "used_memory")
        memory_bytes = None if used is None else int(used * _MIB)
        for one in samples:
            if one["uuid"] == cells[0]:
                one["processes"].append(holder(int(cells[2]), memory_bytes, on_host=on_host))


def _text(row: dict[str, str], column: str) -> str | None:
    cell = row.get(column, "")
    return None if cell.startswith("[") or cell in {"", "N/A", "ERR!"} else cell


def _number(row: dict[str, str], column: str) -> float | None:
    try:
        return float(row.get(column, "").split(" ")[0])
    except ValueError:
        return None


def _count(row: dict[str, str], column: str) -> int | None:
    number = _number(row, column)
    return None if number is None else int(number)
