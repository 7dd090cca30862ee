"""Kills the daemon again and again while runs fail, restart and finish; says what was lost.

    python -m bench.soak [--kills 300] [--seed 1] [--minutes 60] [--json]

Each daemon dies at a point of tests/faults/points.py, or at a random moment, both from the seed.
Runs follow each other (attempt 1 fails, attempt 2 finishes); after each one its attempts, its log
and its alerts are compared with what really happened. After `--minutes` it kills no more.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.observe.figures import show
from orchestrator.core.errors import OrchError
from tests.faults.nursery import Nursery
from tests.faults.points import POINTS, Fault
from tests.faults.story import LOG_NAME, Stage, inventory
from tests.lab.receiver import Receiver

LIFE_S = 3.0
"""A daemon whose point is not reached dies of the clock."""
STUCK_S = 120.0
CURRENT_S = 30.0


@dataclass(slots=True)
class Count:
    """What was seen."""

    kills: Counter[str] = field(default_factory=Counter)
    runs: int = 0
    alerts: int = 0
    requests: int = 0
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    attempts_wrong: list[str] = field(default_factory=list)
    bytes_wrong: list[str] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)
    current_s: list[float] = field(default_factory=list)

    def report(self, seconds: float) -> dict[str, Any]:
        """The figures."""
        times = sorted(self.current_s)
        return {
            "kills": sum(self.kills.values()),
            "by_kind": dict(self.kills.most_common()),
            "runs": self.runs,
            "alerts": self.alerts,
            "requests": self.requests,
            "alerts_lost": self.lost,
            "alerts_doubled": self.doubled,
            "attempts_wrong": self.attempts_wrong,
            "bytes_wrong": self.bytes_wrong,
            "stuck": self.stuck,
            "current_after_start_s": {
                name: round(times[int(len(times) * share)], 2) if times else None
                for name, share in (("median", 0.5), ("p95", 0.95), ("max", 0.9999))
            },
            "seconds": round(seconds),
        }


def one_life(stage: Stage, rng: random.Random, count: Count) -> None:
    """A daemon from its start to its death."""
    if rng.random() < 0.5:
        point, side = rng.choice(sorted(POINTS)), rng.choice(["before", "after"])
        fault, life_s = Fault(point=point, side=side, nth=rng.randint(1, 3)), LIFE_S
    else:
        fault, life_s = None, rng.uniform(0.0, 2.0)
    begun = time.monotonic()
    stage.start(fault)
    current = False
    while not stage.gone() and time.monotonic() - begun < life_s:
        if not current and (current := is_current(stage)):
            count.current_s.append(time.monotonic() - begun)
        runs = stage.runs()
        if current and (not runs or runs[0]["ended_at"] is not None):
            stage.ask()
        time.sleep(0.02)
    by_fault = stage.gone() and fault is not None
    count.kills[f"{fault.point} {fault.side}" if fault and by_fault else "random moment"] += 1
    assert stage.daemon is not None
    stage.daemon.end()
    stage.daemon = None


def is_current(stage: Stage) -> bool:
    """Whether the daemon answers, sees its target and shows the newest run with all its bytes."""
    try:
        snapshot = stage.client.get("/v1/snapshot")
    except OrchError:
        return False
    if any(target["link"] != "connected" for target in snapshot["targets"]):
        return False
    for run in snapshot["runs"]:
        log = Path(run["directory"]) / f"attempt-{run['attempt']}" / LOG_NAME
        if run["ended_at"] is None and log.exists() and run["log_bytes"] < log.stat().st_size:
            return False
    return True


def settle(stage: Stage, count: Count) -> None:
    """A last daemon brings everything to its end."""
    stage.start(None)
    deadline = time.monotonic() + STUCK_S
    while not stage.done():
        if time.monotonic() > deadline:
            count.stuck.append(json.dumps(stage.runs()[:1]))
            return
        time.sleep(0.1)


def judge(stage: Stage, receiver: Receiver, count: Count) -> None:
    """Compare what is known with what was."""
    seen: dict[str, tuple[str, str]] = {}
    for one in receiver.received:
        labels = one.json["alerts"][0]["labels"]
        seen.setdefault(one.headers["webhook-id"], (labels["run"], one.json["status"]))
    count.requests, count.alerts = len(receiver.received), len(seen)
    told: dict[str, list[str]] = {}
    for run, status in seen.values():
        told.setdefault(run, []).append(status)
    for run in stage.client.get("/v1/runs", {"all": 1})["runs"]:
        if run["state"] == "stopped" and run["started_at"] is None:
            continue  # its daemon died before anybody was told of it
        count.runs += 1
        name, folder = run["id"], Path(run["directory"])
        if run["state"] != "finished" or (folder / "attempts").read_text().split() != ["1", "2"]:
            count.attempts_wrong.append(f"{name} {run['state']}")
        for attempt in (1, 2):
            written = (folder / f"attempt-{attempt}" / LOG_NAME).read_bytes()
            if stage.client.log(name, attempt=attempt).content != written:
                count.bytes_wrong.append(f"{name}.{attempt}")
        statuses = told.get(name, [])
        count.lost += [f"{name} {one}" for one in ("firing", "resolved") if one not in statuses]
        if len(statuses) > 2:
            count.doubled.append(f"{name} {statuses}")


def main() -> int:
    """Run and report; 1 where anything was lost."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rng, count = random.Random(options.seed), Count()
    folder = Path(tempfile.mkdtemp(prefix="orch-soak-", dir="/tmp"))
    env = {**os.environ, "TMUX_TMPDIR": str(folder), "HOME": str(folder)}
    env |= {"XDG_STATE_HOME": f"{folder}/s", "XDG_RUNTIME_DIR": f"{folder}/r"}
    env.pop("TMUX", None)
    for name in ("s", "r", "w"):
        (folder / name).mkdir(mode=0o700)
    config = folder / "inventory.yaml"
    config.write_text(inventory(folder))
    begun = time.monotonic()
    until = begun + 60.0 * options.minutes
    with Receiver() as receiver, Nursery() as nursery:
        stage = Stage(nursery, config, {**env, **receiver.env}, receiver)
        try:
            while sum(count.kills.values()) < options.kills and time.monotonic() < until:
                one_life(stage, rng, count)
            settle(stage, count)
            judge(stage, receiver, count)
        finally:
            stage.close()
            subprocess.run(["tmux", "kill-server"], env=env, capture_output=True, check=False)
    out_of_time = sum(count.kills.values()) < options.kills
    report = {**count.report(time.monotonic() - begun), "out_of_time": out_of_time}
    show([report], as_json=options.json)
    wrong = count.lost or count.doubled or count.attempts_wrong or count.bytes_wrong or count.stuck
    if not wrong:
        shutil.rmtree(folder)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
