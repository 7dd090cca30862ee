"""The board in Prometheus' text form: our own series, and GPUs under the DCGM exporter's names."""

from collections.abc import Iterable
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily

from orchestrator.core.model import RunState
from orchestrator.daemon.board import Board

MIB = 1024 * 1024
GPU_LABELS = ("gpu", "UUID", "modelName", "host", "container", "job", "run")
RUN_LABELS = ("run", "job", "target")
GPU_SERIES = (
    ("DCGM_FI_DEV_GPU_UTIL", "GPU utilization (in %).", "utilization_percent", 1.0),
    ("DCGM_FI_DEV_FB_USED", "Framebuffer memory used (in MiB).", "memory_used_bytes", MIB),
    ("DCGM_FI_DEV_POWER_USAGE", "Power draw (in W).", "power_w", 1.0),
    ("DCGM_FI_DEV_GPU_TEMP", "GPU temperature (in C).", "temperature_c", 1.0),
)
RUN_SERIES = (
    ("orch_run_step", "Newest optimizer step.", "step"),
    ("orch_run_loss", "Newest loss.", "loss"),
    ("orch_run_last_output_timestamp_seconds", "When output was last seen.", "output_at"),
)


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
    for name, text, key, unit in GPU_SERIES:
        series = GaugeMetricFamily(name, text, labels=GPU_LABELS)
        for target in targets:
            run = live.get(target["name"])
            for gpu in target["gpus"]:
                if gpu[key] is None:
                    continue
                labels = (
                    str(gpu["index"]),
                    gpu["uuid"] or "",
                    gpu["name"] or "",
                    target["host"],
                    target["container"] or "",
                    run["job"] if run else "",
                    run["id"] if run else "",
                )
                series.add_metric(labels, gpu[key] / unit)
        yield series


def text(board: Board) -> str:
    """The page of GET /metrics."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Board(board))
    return generate_latest(registry).decode()
