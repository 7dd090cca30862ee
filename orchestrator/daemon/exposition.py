"""The board in Prometheus' text form: our own series, and GPUs under the DCGM exporter's names."""

from collections.abc import Iterable, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily

from orchestrator.core.model import RunState
from orchestrator.core.parse.terminal import one_line
from orchestrator.daemon.board import Board

MIB = 1024 * 1024
GPU_LABELS = ("gpu", "UUID", "modelName", "host", "container", "job", "run")
HOLDER_LABELS = ("gpu", "host", "container", "pid", "run")
RUN_LABELS = ("run", "job", "target")
GPU_SERIES = (
    ("DCGM_FI_DEV_GPU_UTIL", "GPU utilization (in %).", "utilization_percent", 1.0),
    ("DCGM_FI_DEV_FB_USED", "Framebuffer memory used (in MiB).", "memory_used_bytes", MIB),
    ("DCGM_FI_DEV_POWER_USAGE", "Power draw (in W).", "power_w", 1.0),
    ("DCGM_FI_DEV_GPU_TEMP", "GPU temperature (in C).", "temperature_c", 1.0),
)
GPU_EXTRA_SERIES = (
    ("DCGM_FI_DEV_SM_CLOCK", "SM clock frequency (in MHz).", "sm_clock_mhz", None),
    ("DCGM_FI_DEV_MEM_CLOCK", "Memory clock frequency (in MHz).", "memory_clock_mhz", None),
    ("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", "Reasons, as bits.", "throttle_reasons", None),
    ("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "PCIe retries.", "pcie_replays", None),
    ("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "Corrected ECC errors since boot.", "ecc_corrected", None),
    ("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "Uncorrected ECC errors.", "ecc_uncorrected", None),
    ("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "Rows remapped.", "remapped_rows", 0),
    ("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "Rows remapped.", "remapped_rows", 1),
    ("DCGM_FI_DEV_ROW_REMAP_PENDING", "1 until the next reset.", "remapped_rows", 2),
    ("DCGM_FI_DEV_ROW_REMAP_FAILURE", "1 where one failed.", "remapped_rows", 3),
    ("DCGM_FI_DEV_RETIRED_SBE", "Pages retired for single-bit errors.", "retired_pages", 0),
    ("DCGM_FI_DEV_RETIRED_DBE", "Pages retired for double-bit errors.", "retired_pages", 1),
    ("DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", "NVLink.", "nvlink_errors", "crc_flit"),
    ("DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", "NVLink.", "nvlink_errors", "replay"),
    ("DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL", "NVLink.", "nvlink_errors", "recovery"),
)
"""What a driver may tell or not, by its key in a sample's `extra`, and there."""
RUN_SERIES = (
    ("orch_run_step", "Newest optimizer step.", "step"),
    ("orch_run_loss", "Newest loss.", "loss"),
    ("orch_run_last_output_timestamp_seconds", "When output was last seen.", "output_at"),
)


Labels = tuple[str, ...]


class _Board:
    """A collector that reads the board when it is asked."""

    def __init__(self, board: Board) -> None:
        self._board = board

    def collect(self) -> Iterable[GaugeMetricFamily]:
        runs = self._board.views("runs")
        targets = self._board.views("targets")
        yield from _runs(runs)
        up = GaugeMetricFamily("orch_target_up", "Whether the link is up.", labels=("target",))
        for target in targets:
            up.add_metric((target["name"],), float(target["link"] == "connected"))
        yield up
        yield from _gpus(targets, runs)


def _runs(runs: list[Any]) -> Iterable[GaugeMetricFamily]:
    state = GaugeMetricFamily(
        "orch_run_state", "1 for the state a run is in.", labels=(*RUN_LABELS, "state")
    )
    for run in runs:
        for word in RunState:
            labels = (run["id"], run["job"], run["target"], word.value)
            state.add_metric(labels, float(run["state"] == word.value))
    yield state
    for name, text, key in RUN_SERIES:
        series = GaugeMetricFamily(name, text, labels=RUN_LABELS)
        for run in runs:
            if isinstance(run[key], int | float):
                series.add_metric((run["id"], run["job"], run["target"]), float(run[key]))
        yield series


def _gpus(targets: list[Any], runs: list[Any]) -> Iterable[GaugeMetricFamily]:
    live = {run["target"]: run for run in runs if run["state"] in ("running", "stopping")}
    known = {run["id"]: run for run in runs}
    rows: dict[Any, tuple[Labels, Any]] = {}
    for target in targets:
        for gpu in target["gpus"]:
            # Containers of one host may share a GPU: it is one series all the same.
            key = (target["host"], gpu["uuid"] or (target["name"], gpu["index"]))
            labels = _labels(target, gpu, live.get(target["name"]), known)
            if key not in rows or (labels[-1] and not rows[key][0][-1]):
                rows[key] = (labels, gpu)
    # Two of one name would cost the whole page: a container can say what it likes of its GPUs.
    shown = list({labels: (labels, gpu) for labels, gpu in rows.values()}.values())
    for name, text, field, unit in GPU_SERIES:
        series = GaugeMetricFamily(name, text, labels=GPU_LABELS)
        for labels, gpu in shown:
            if gpu[field] is not None:
                series.add_metric(labels, gpu[field] / unit)
        yield series
    yield from _extras(shown)
    yield _holders(targets)


def _extras(rows: list[tuple[Labels, Any]]) -> Iterable[GaugeMetricFamily]:
    for name, text, key, part in GPU_EXTRA_SERIES:
        series = GaugeMetricFamily(name, text, labels=GPU_LABELS)
        for labels, gpu in rows:
            value = _part(gpu["extra"].get(key), part)
            if isinstance(value, int | float):
                series.add_metric(labels, value)
        yield series


def _part(value: Any, part: int | str | None) -> Any:
    """Of a list or an object the part that is there; a driver may give fewer than another."""
    if isinstance(part, str):
        return value.get(part) if isinstance(value, dict) else None
    if part is None or value is None:
        return value
    return value[part] if isinstance(value, list | tuple) and part < len(value) else None


def _said(*words: str) -> Labels:
    """Labels as a terminal and a scraper can take them: others gave them their names."""
    return tuple(one_line(word).encode("utf-8", "replace").decode() for word in words)


def _labels(target: Any, gpu: Any, live: Any, known: Mapping[str, Any]) -> Labels:
    """Of the run that holds most of a GPU, else of the one that lives on its target."""
    holders = sorted(gpu["processes"], key=lambda one: -(one.get("memory_bytes") or 0))
    holder = next((one for one in holders if one.get("run")), None)
    run = known.get(holder["run"]) if holder else None
    container = (holders[0].get("container") if holders else None) or target["container"]
    if holder is None and not holders and live is not None:
        run = live
    return _said(
        str(gpu["index"]),
        gpu["uuid"] or "",
        gpu["name"] or "",
        target["host"],
        (holder or {}).get("container") or container or "",
        run["job"] if run else "",
        run["id"] if run else (holder or {}).get("run", ""),
    )


def _holders(targets: list[Any]) -> GaugeMetricFamily:
    series = GaugeMetricFamily(
        "orch_gpu_process_memory_bytes",
        "GPU memory that a process holds, by run, or by container where it is of none.",
        labels=HOLDER_LABELS,
    )
    seen: set[tuple[Any, ...]] = set()
    for target in targets:
        for gpu in target["gpus"]:
            for one in gpu["processes"]:
                key = (target["host"], gpu["uuid"] or gpu["index"], one["pid"])
                labels = _said(
                    str(gpu["index"]),
                    target["host"],
                    one.get("container") or "",
                    str(one["pid"]),
                    one.get("run") or "",
                )
                if one.get("memory_bytes") is None or {key, labels} & seen:
                    continue
                seen |= {key, labels}
                series.add_metric(labels, one["memory_bytes"])
    return series


def text(board: Board) -> str:
    """The page of GET /metrics."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Board(board))
    return generate_latest(registry).decode()
