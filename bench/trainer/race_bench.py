"""Count crashed launches with cold caches, arm by arm, on the GPUs that are there.

    python -m bench.trainer.race_bench [--budget 530] [--arms none=20,processes=40,rwlock=20]
        [--at-once 4] [--steps 12] [--attention compiled]

An arm is a remedy of `--layout threads-naive` with a thread for each GPU (two at least),
or `processes`: as many processes of one thread, each with a GPU of its own. Every launch
has cache folders of its own, empty. Arms are run in the order given while time lasts; after each
wave the counts so far are printed as one JSON line.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CONFIG = Path("trainer/configs/cpu-tiny.toml")
FACES = (
    ("the message", "using FX to symbolically trace a dynamo-optimized function"),
    ("CURRENT_PATCHER", "CURRENT_PATCHER"),
    ("flag left set", "the flag is left set"),
)
LAUNCH_S = 150


@dataclass
class Launch:
    """One cold launch: one process, or one for each GPU."""

    arm: str
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    logs: list[Path] = field(default_factory=list)

    def outcome(self, deadline: float) -> tuple[bool, str]:
        """Whether it failed, and how."""
        codes: list[int | None] = []
        for running in self.processes:
            try:
                codes.append(running.wait(max(0.1, deadline - time.monotonic())))
            except subprocess.TimeoutExpired:
                running.kill()
                running.wait()
                codes.append(None)
        if not any(codes) and None not in codes:
            return False, "ok"
        if None in codes:
            return True, "did not end"
        if any(code is not None and code < 0 for code in codes):
            return True, f"signal {-min(code for code in codes if code is not None)}"
        text = "".join(log.read_text(errors="replace") for log in self.logs)
        for face, words in FACES:
            if words in text:
                return True, face
        return True, "other: " + (text.strip().splitlines() or ["nothing said"])[-3][:160]


def start(arm: str, gpus: int, steps: int, attention: str) -> Launch:
    """Start one launch of `arm` with empty caches."""
    launch = Launch(arm)
    workers = max(2, gpus)
    parts = workers if arm == "processes" else 1
    for part in range(parts):
        folder = Path(tempfile.mkdtemp(prefix="race-"))
        env = os.environ | {
            "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
            "TRITON_CACHE_DIR": str(folder / "triton"),
            "TORCHINDUCTOR_COMPILE_THREADS": "2",
        }
        if arm == "processes":
            env["CUDA_VISIBLE_DEVICES"] = str(part % gpus)
        argv = [
            sys.executable, "-m", "trainer", "--config", str(CONFIG), "--layout", "threads-naive",
            "--race-remedy", "none" if arm == "processes" else arm,
            "--race-threads", str(1 if arm == "processes" else workers),
            "--race-attention", attention,
            "--set", "device=cuda", "--set", f"total_steps={steps}", "--set", f"seed={part + 1}",
        ]  # fmt: skip
        log = folder / "log"
        with log.open("wb") as out:
            running = subprocess.Popen(argv, env=env, stdout=out, stderr=subprocess.STDOUT)
        launch.processes.append(running)
        launch.logs.append(log)
    return launch


def main() -> int:
    """Run the arms within the budget."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--budget", type=float, default=530)
    parser.add_argument("--arms", default="none=20,processes=40,rwlock=20")
    parser.add_argument("--at-once", type=int, default=4)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--attention", choices=("compiled", "direct"), default="compiled")
    chosen = parser.parse_args()
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True)
    gpus = len(listed.stdout.splitlines())
    ends = time.monotonic() + chosen.budget
    found: dict[str, Any] = {"gpus": gpus, "attention": chosen.attention}
    wave_s = 0.0
    for arm, count in (item.split("=") for item in chosen.arms.split(",")):
        faces: Counter[str] = Counter()
        failed = launched = 0
        while launched < int(count) and time.monotonic() + wave_s < ends:
            began = time.monotonic()
            wave = [
                start(arm, gpus, chosen.steps, chosen.attention)
                for _ in range(min(chosen.at_once, int(count) - launched))
            ]
            for launch in wave:
                bad, face = launch.outcome(min(began + LAUNCH_S, ends))
                if face == "did not end" and time.monotonic() >= ends:
                    continue  # cut by the budget: says nothing
                failed += bad
                launched += 1
                faces[face] += 1
            wave_s = time.monotonic() - began
            found[arm] = {
                "failed": failed, "launched": launched, "faces": faces, "wave_s": round(wave_s, 1),
            }  # fmt: skip
            print(json.dumps(found), flush=True)
    out = os.environ.get("OUT")
    if out:
        Path(out, f"race_{chosen.attention}.json").write_text(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
