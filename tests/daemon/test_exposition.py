"""The metrics page: GPUs of a host that several containers share are told once."""

from dataclasses import asdict

from prometheus_client.parser import text_string_to_metric_families

from orchestrator.clock import SystemClock
from orchestrator.core.model import GpuSample, Host, LinkState, Run, RunState, Target
from orchestrator.daemon.board import Board
from orchestrator.daemon.exposition import text
from orchestrator.daemon.views import run_view, target_view

GIB = 1024**3


def test_a_shared_gpu_is_one_series_and_its_holders_are_named() -> None:
    """Two containers, one GPU: its use counts once, under the run that holds most of it."""
    board = Board(SystemClock())
    holders = (
        {"pid": 11, "memory_bytes": 70 * GIB, "container": "200", "run": "dflash-1"},
        {"pid": 12, "memory_bytes": 9 * GIB, "container": "201", "run": None},
        {"pid": 13, "memory_bytes": None},
    )
    extra = {
        "sm_clock_mhz": 1980, "ecc_uncorrected": 2, "remapped_rows": [0, 3, 1, 0],
        "nvlink_errors": {"replay": 7},
    }  # fmt: skip
    gpu = GpuSample(index=0, uuid="GPU-a", name="H200", memory_used_bytes=79 * GIB, extra=extra)
    for name in ("200", "201"):
        target = Target(name=f"ct{name}", host=Host(name="pve1"), runtime="pct", container=name)
        shown = GpuSample(**{**asdict(gpu), "processes": holders})
        view = target_view(
            target,
            link=LinkState.CONNECTED,
            seen_at=1.0,
            error=None,
            gpus=(shown,),
            gpu_source="nvml on the host",
            gpus_at=1.0,
            watched="probe",
        )
        board.put("targets", target.name, view)
    run = Run(
        id="dflash-1",
        uid="u",
        job="dflash",
        target="ct200",
        number=1,
        state=RunState.RUNNING,
        attempt=1,
        session="dflash",
        directory="/w/runs/dflash-1.u",
    )
    board.put("runs", run.id, run_view(run, link=LinkState.CONNECTED, seen_at=1.0, log_bytes=0))
    page = text(board).splitlines()
    used = [line for line in page if line.startswith("DCGM_FI_DEV_FB_USED{")]
    assert len(used) == 1
    assert all(
        label in used[0]
        for label in ('container="200"', 'host="pve1"', 'job="dflash"', 'run="dflash-1"')
    )
    assert float(used[0].split()[-1]) == 79 * 1024
    held = [line for line in page if line.startswith("orch_gpu_process_memory_bytes{")]
    assert [line.split("container=")[1].split(",")[0] for line in held] == ['"200"', '"201"']
    told = {line.split("{")[0]: float(line.split()[-1]) for line in page if "UUID=" in line}
    assert told["DCGM_FI_DEV_SM_CLOCK"] == 1980
    assert told["DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"] == 2
    assert told["DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS"] == 3
    assert told["DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL"] == 7
    assert "DCGM_FI_DEV_RETIRED_SBE" not in told


def test_whatever_a_container_says_the_page_is_read() -> None:
    """Names that move a cursor or are no text, GPUs told twice, fewer parts than there are."""
    board = Board(SystemClock())
    holder = {
        "pid": 7,
        "memory_bytes": 1,
        "container": "2\x1b]52;c;AA==\x0700",
        "run": "a\nb\ud800",
    }
    gpus = tuple(
        GpuSample(
            index=0,
            uuid=uuid,
            name='H"200\x9b2J\u202e\\',
            power_w=1.0,
            processes=(holder, holder),
            extra={"remapped_rows": [1], "nvlink_errors": [], "retired_pages": None},
        )
        for uuid in ("GPU\x1b[m", "GPU", None)
    )
    for name in ("one", "two"):
        view = target_view(
            Target(name=name, host=Host(name="pve1")),
            link=LinkState.CONNECTED,
            seen_at=1.0,
            error=None,
            gpus=gpus,
            gpu_source="nvml",
            gpus_at=1.0,
            watched="probe",
        )
        board.put("targets", name, view)
    page = text(board)
    assert all(line.isprintable() for line in page.splitlines())
    found = [
        (sample.name, tuple(sorted(sample.labels.items())))
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    ]
    assert len(found) == len(set(found))
    assert [one for one in found if one[0] == "DCGM_FI_DEV_POWER_USAGE"]
