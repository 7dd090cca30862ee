"""What situations are made of: targets, runs, incidents, logs, metrics, lines of a replay.

Nothing in them is random or depends on the day.
"""

import math
from collections.abc import Iterable
from typing import Any

NOW = 1_780_000_000.0
GIB = 1024**3
Line = dict[str, Any]

FX_LINE = (
    "RuntimeError: Detected that you are using FX to symbolically trace a dynamo-optimized"
    " function. This is not supported at the moment."
)
TRACEBACK = f"""\
Exception in thread Thread-3 (draft):
Traceback (most recent call last):
  File "/usr/lib/python3.11/threading.py", line 1045, in _bootstrap_inner
    self.run()
  File "/srv/dflash/releases/4be1d0/trainer/draft_pool.py", line 51, in draft
    logits = self.drafter(hidden)
  File "/srv/dflash/releases/4be1d0/trainer/dflash_model.py", line 88, in forward
    return self.block(x, mask)
  File "/opt/venv/lib/python3.11/site-packages/torch/_dynamo/eval_frame.py", line 736, in compile_wrapper
    return fn(*args, **kwargs)
  File "/opt/venv/lib/python3.11/site-packages/torch/fx/_symbolic_trace.py", line 807, in trace
    raise RuntimeError(
{FX_LINE}
"""  # noqa: E501  as it is printed
FINDING: Line = {
    "verdict": "crashed",
    "crash": True,
    "signature": "fx_trace_race",
    "title": "FX tracing raced with torch.compile on another thread",
    "severity": "critical",
    "exception": {"type": "RuntimeError", "message": FX_LINE.partition(": ")[2]},
    "frame": {"file": "torch/fx/_symbolic_trace.py", "line": 807, "function": "trace"},
    "in_app_frame": {"file": "trainer/dflash_model.py", "line": 88, "function": "forward"},
    "rank": None,
    "thread": "Thread-3 (draft)",
    "cause": "Two threads traced at once; torch keeps the flag that says so once for the process.",
    "next_steps": [
        "Compile once, before the drafting threads start.",
        "Or hold one lock around everything that may compile.",
        "Do not clear the compile cache between runs until one of the two is in place.",
    ],
    "references": ["https://pytorch.org/docs/stable/torch.compiler_faq.html"],
    "evidence": [f"812: {FX_LINE}"],
    "traceback": TRACEBACK,
}


def gpu(
    index: int, use: float | None, used: float, run: str | None = None, *, total: float = 80
) -> Line:
    """A GPU; memory in GiB."""
    owner = {"pid": 4200 + index, "memory_bytes": int(used * GIB), "command": "python -m trainer"}
    owner["start"] = 90_000 + index
    if run:
        owner |= {"run": run, "container": "200", "container_pid": 311 + index}
    return {
        "index": index,
        "uuid": f"GPU-{index:04d}",
        "name": "NVIDIA H100 80GB HBM3",
        "memory_used_bytes": int(used * GIB),
        "memory_total_bytes": int(total * GIB),
        "utilization_percent": use,
        "power_w": 90.0 + 5.6 * (use or 0),
        "temperature_c": 38.0 + 0.3 * (use or 0),
        "processes": [owner] if used > 1 else [],
        "extra": {},
    }


def target(name: str = "ct200", gpus: Iterable[Line] = (), **changes: Any) -> Line:
    """A target that is seen well."""
    view = {
        "name": name,
        "host": "pve1",
        "transport": "ssh",
        "runtime": "pct",
        "container": name.removeprefix("ct"),
        "link": "connected",
        "seen_at": NOW - 1,
        "watched": "probe",
        "error": None,
        "gpus": [{**gpu, "uuid": f"{gpu['uuid']}-{name}"} for gpu in gpus],
        "gpu_source": "nvml",
        "gpus_at": NOW - 1,
    }
    return {**view, **changes}


def run(number: int, job: str = "dflash", **changes: Any) -> Line:
    """A run that trains."""
    view = {
        "id": f"{job}-{number}",
        "job": job,
        "target": "ct200",
        "state": "running",
        "attempt": 1,
        "exit_code": None,
        "signal": None,
        "started_at": NOW - 1810,
        "ended_at": None,
        "step": 1240,
        "loss": 2.9381,
        "phase": "train",
        "verdict": None,
        "incident": None,
        "link": "connected",
        "seen_at": NOW - 1,
        "number": number,
        "session": job,
        "directory": f"/srv/dflash/runs/{job}-{number}.k3v9",
        "release": "4be1d0a9",
        "why": "hold a lock around compiling",
        "created_at": NOW - 1830 + number,
        "metrics": {"tokens_per_s": 10_546.0, "total_steps": 5000, "lr": 1.89e-3},
        "output_at": NOW - 2,
        "log_bytes": 0,
        "detached": False,
        "forced": False,
    }
    return {**view, **changes}


def ended(number: int, job: str = "dflash", *, ago: float = 3600, **changes: Any) -> Line:
    """A run that failed with the race, some time ago."""
    view = run(
        number,
        job,
        state="failed",
        exit_code=1,
        started_at=NOW - ago - 95,
        created_at=NOW - ago - 97,
        ended_at=NOW - ago,
        output_at=NOW - ago,
        step=120,
        loss=5.3215,
        phase="train",
        verdict=FINDING,
        why="remove the torch.compile wrapper",
    )
    return {**view, **changes}


def incident(run_id: str, *, ago: float = 3600, **changes: Any) -> Line:
    """The race, on that run."""
    view = {
        "id": f"i-{run_id.rpartition('-')[2]}7f3k",
        "run": run_id,
        "job": run_id.rpartition("-")[0],
        "target": "ct200",
        "attempt": 1,
        "signature": "fx_trace_race",
        "severity": "critical",
        "title": FINDING["title"],
        "state": "open",
        "fingerprint": "v1:9c2e",
        "family": "fx_race",
        "opened_at": NOW - ago,
        "updated_at": NOW - ago,
        "resolved_at": None,
        "occurrences": 1,
        "same_as": None,
        "finding": FINDING,
    }
    return {**view, **changes}


def snapshot(targets: Iterable[Line], runs: Iterable[Line], incidents: Iterable[Line] = ()) -> Line:
    """A whole snapshot."""
    return {
        "cursor": 17,
        "at": NOW,
        "daemon": {
            "running": True,
            "pid": 4711,
            "socket": "/run/user/1000/orch/1f.sock",
            "version": "0.1.0",
            "inventory": "/home/me/dflash/inventory.yaml",
            "inventory_error": None,
            "started_at": NOW - 86_400,
            "needs": [],
            "wants": [],
            "sinks": [],
            "jobs": [{"name": "dflash", "targets": ["ct200"], "session": "dflash"}],
        },
        "targets": list(targets),
        "runs": list(runs),
        "incidents": list(incidents),
    }


def step_lines(first: int, last: int, *, ranks: int = 1) -> str:
    """What a trainer prints for those steps."""
    lines = []
    for step in range(first, last + 1):
        loss = 2.4 + 6.5 * math.exp(-step / 420) + 0.05 * math.sin(step)
        for rank in range(ranks):
            tag = f"[rank{rank}]: " if ranks > 1 else ""
            lines.append(
                f"{tag}step {step}/5000  loss {loss:.4f}  tok/s 10,546  phase train  lr 1.89e-03"
            )
        if step % 50 == 0:
            lines.append(f"\x1b[36mINFO\x1b[0m checkpoint step-{step:08d} saved in 0.31 s")
    return "".join(f"{line}\n" for line in lines)


START_LINES = (
    "orch: dflash-3, attempt 1, release 4be1d0a9\n"
    "W0528 20:12:01.114000 311 torch/_inductor/utils.py:1137] Not enough SMs to use max_autotune_gemm mode\n"  # noqa: E501  as it is printed
    "compiling the drafter:   0%|          | 0/8\rcompiling the drafter: 100%|##########| 8/8\n"
)


def gpu_history() -> list[Line]:
    """Half an hour of four GPUs that warm up."""
    return [
        {"t": NOW - 1800 + 60 * m, "samples": [gpu(n, 97 - 90 / (m + 1), 61.5) for n in range(4)]}
        for m in range(30)
    ]


def event(ago: float, kind: str, text: str) -> Line:
    """An event of a timeline."""
    return {"at": NOW - ago, "kind": kind, "text": text, "ref": None}


TIMELINE = [
    event(1850, "command", "run by me on laptop: why hold a lock around compiling"),
    event(1840, "deploy", "deploy: 4be1d0a9"),
    event(1810, "launch", "attempt 1"),
    event(1800, "phase", "compile"),
    event(1690, "phase", "train"),
    event(900, "finding", "recompile_storm, once more"),
    event(60, "phase", "checkpoint"),
]
DIFF = {
    "before": {"run": "dflash-1", "state": "finished", "why": ""},
    "after": {"run": "dflash-3", "state": "running", "why": "hold a lock around compiling"},
    "changes": [
        {
            "kind": "cache",
            "name": "inductor",
            "text": "the compile cache was emptied: 812 files are gone",
            "alarming": True,
        },
        {
            "kind": "code",
            "name": "trainer/dflash_model.py",
            "text": "trainer/dflash_model.py: 3 lines more, 1 less",
            "alarming": False,
        },
    ],
    "unknown": [],
    "diff": "--- a/trainer/dflash_model.py\n+++ b/trainer/dflash_model.py\n@@ -85,2 +85,4 @@\n"
    "-        return self.block(x, mask)\n+        with COMPILE_LOCK:\n"
    "+            return self.block(x, mask)\n",
}
LOOK = {
    "attempt": 1,
    "moment": "launch",
    "at": NOW - 1811,
    "fingerprint": {
        "python": "3.12.3",
        "packages": {
            name: {"version": version, "from": "/opt/venv"}
            for name, version in (("torch", "2.13.0"), ("triton", "3.5.1"), ("flashinfer", "0.6.2"))
        },
        "driver": "580.65.06",
        "caches": {"inductor": {"files": 812, "bytes": 61_000_000}},
    },
    "configuration": {"command": "python3 -m trainer", "env": {"OMP_NUM_THREADS": "8"}},
}


SILENCES = [
    {
        "id": None,
        "match": {"severity": "info"},
        "until": None,
        "why": "",
        "created_at": None,
        "expired": False,
    },
    {
        "id": "s3f81c09a2d",
        "match": {"alertname": "fx_trace_race", "job": "dflash"},
        "until": NOW + 5400,
        "why": "I break it on purpose",
        "created_at": NOW - 1800,
        "expired": False,
    },
]


def metrics(first: int, last: int, worse: float = 1.0) -> list[Line]:
    """The metrics file of those steps."""
    return [
        {
            "t": NOW - 2 - (last - step) * 1.4,
            "step": step,
            "phase": "train",
            "loss": worse * (2.4 + 6.5 * math.exp(-step / 420) + 0.05 * math.sin(step)),
            "tokens_per_s": 10_546.0 + 300 * math.sin(step / 9),
            "grad_norm": 0.8 + 0.2 * math.cos(step / 5),
        }
        for step in range(first, last + 1, 5)
    ]


def begin(title: str) -> Line:
    """The first line."""
    return {"t": 0, "kind": "begin", "title": title, "now": NOW}


def whole(view: Line, t: float = 0) -> Line:
    """A snapshot event."""
    return {"t": t, "kind": "snapshot", "snapshot": view}


def change(t: float, **parts: list[Line]) -> Line:
    """A change event, of those targets, runs, incidents."""
    view = {**snapshot((), ()), "at": NOW + t, "cursor": 17 + int(t * 10), **parts}
    return {"t": t, "kind": "change", "snapshot": view}


def log(run_id: str, text: str, t: float = 0, attempt: int = 1) -> Line:
    """Bytes of a log."""
    return {"t": t, "kind": "log", "run": run_id, "attempt": attempt, "text": text}


def answer(path: str, document: Line, t: float = 0) -> Line:
    """An answer to GET or POST."""
    return {"t": t, "kind": "answer", "path": path, "document": document}
