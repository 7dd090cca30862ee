"""GPU samples from `nvidia-smi`, for where NVML itself cannot be loaded.

Owns two queries (GPUs, and processes on them) and their CSV. `[N/A]`, `[Not Supported]`, `ERR!`
and the like are None.
"""

import subprocess

from .frames import Frame
from .holders import holder

QUERY = "index,uuid,name,memory.used,memory.total,utilization.gpu,power.draw,temperature.gpu"
APPS = "gpu_uuid,gpu_bus_id,pid,used_memory"
WITHIN_S = 20.0
_MIB = 1024 * 1024


def sample(*, on_host: bool) -> Frame:
    """Frame fields `source`, `samples`, `error`; source None where there is no nvidia-smi."""
    argv = ["nvidia-smi", f"--query-gpu={QUERY}", "--format=csv,noheader"]
    try:
        done = subprocess.run(argv, capture_output=True, timeout=WITHIN_S, check=False)
    except FileNotFoundError:
        return {"source": None, "samples": [], "error": None}
    except (OSError, subprocess.TimeoutExpired) as exc:
        return {"source": "nvidia-smi", "samples": [], "error": f"nvidia-smi: {exc}"}
    text = done.stdout.decode("utf-8", "replace")
    samples = parse(text)
    if samples:
        _join(samples, on_host=on_host)
    complaint = None
    if done.returncode != 0 or not samples:
        said = text.strip() or done.stderr.decode("utf-8", "replace").strip()
        complaint = f"nvidia-smi ended with {done.returncode}: {said[:500]}"
    return {"source": "nvidia-smi", "samples": samples, "error": complaint}


def parse(text: str) -> list[Frame]:
    """Samples of the lines that are rows of QUERY; other lines (complaints) are passed over."""
    samples: list[Frame] = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(", ")]
        if len(cells) != QUERY.count(",") + 1 or not cells[0].isdigit():
            continue
        used, total = _number(cells[3]), _number(cells[4])
        samples.append(
            {
                "index": int(cells[0]),
                "uuid": _text(cells[1]),
                "name": _text(cells[2]),
                "memory_used_bytes": None if used is None else int(used * _MIB),
                "memory_total_bytes": None if total is None else int(total * _MIB),
                "utilization_percent": _number(cells[5]),
                "power_w": _number(cells[6]),
                "temperature_c": _number(cells[7]),
                "processes": [],
                "extra": {},
            }
        )
    return samples


def _join(samples: list[Frame], *, on_host: bool) -> None:
    """Add the processes; a driver that tells of none leaves the samples as they are."""
    argv = ["nvidia-smi", f"--query-compute-apps={APPS}", "--format=csv,noheader"]
    try:
        done = subprocess.run(argv, capture_output=True, timeout=WITHIN_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return
    for line in done.stdout.decode("utf-8", "replace").splitlines():
        cells = [cell.strip() for cell in line.split(", ")]
        if len(cells) != APPS.count(",") + 1 or not cells[2].isdigit():
            continue
        used = _number(cells[3])
        memory_bytes = None if used is None else int(used * _MIB)
        for one in samples:
            if one["uuid"] == cells[0]:
                one["extra"]["pci"] = cells[1]
                one["processes"].append(holder(int(cells[2]), memory_bytes, on_host=on_host))


def _text(cell: str) -> str | None:
    return None if cell.startswith("[") or cell == "ERR!" else cell


def _number(cell: str) -> float | None:
    try:
        return float(cell.split(" ")[0])
    except ValueError:
        return None
