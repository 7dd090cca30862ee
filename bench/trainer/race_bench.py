"""Count crashed launches with cold caches, arm by arm, on the GPUs that are there.

    python -m bench.trainer.race_bench [--budget 530] [--arms none=20,processes=40,rwlock=20]
        [--at-once 4] [--steps 12] [--attention compiled]

An arm is a remedy of `--layout threads-naive` with a thread for each GPU (two at least),
or `processes`: as many processes of one thread, each with a GPU of its own. Every launch
has cache folders of its own, empty. Arms are run in the order given while time lasts, the
next launch as soon as one ends; after each the counts so far are printed as one JSON line,
and kept in $OUT where that is set. A launch that the budget cuts counts for nothing.
"""

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CONFIG = Path("trainer/configs/cpu-tiny.toml")
FACES = (
    ("the message", "using FX to symbolically trace a dynamo-optimized function"),
    ("CURRENT_PATCHER", "CURRENT_PATCHER"),
    ("flag left set", "the flag is left set"),
)
LAUNCH_S = 100
POLL_S = 0.1


@dataclass
class Launch:
    """One cold launch: one process, or one for each GPU."""

    arm: str
    folder: Path
    began: float
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def over(self) -> bool:
        """Whether all of it has ended, or had its time."""
        late = time.monotonic() - self.began > LAUNCH_S
        return late or all(running.poll() is not None for running in self.processes)

    def end(self) -> tuple[bool, str]:
        """End what still runs, its compiler's workers too; whether it failed, and how."""
        codes = [running.poll() for running in self.processes]
        for running in self.processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)
            running.wait()
        text = "\n".join(
            log.read_text(errors="replace") for log in sorted(self.folder.glob("log-*"))
        )
        shutil.rmtree(self.folder, ignore_errors=True)
        if None in codes:
            return True, "did not end"
        if not any(codes):
            return False, "ok"
        worst = min(code for code in codes if code is not None)
        if worst < 0:
            return True, f"signal {-worst}"
        for face, words in FACES:
            if words in text:
                return True, face
        return True, "other: " + " | ".join(text.strip().splitlines()[-4:])[-400:]


def start(arm: str, gpus: int, workers: int, chosen: argparse.Namespace) -> Launch:
    """Start one launch of `arm` with empty caches."""
    launch = Launch(arm, Path(tempfile.mkdtemp(prefix="race-")), time.monotonic())
    compilers = max(1, (os.cpu_count() or 1) // (workers * chosen.at_once))
    for part in range(workers if arm == "processes" else 1):
        env = os.environ | {
            "TORCHINDUCTOR_CACHE_DIR": str(launch.folder / f"inductor-{part}"),
            "TRITON_CACHE_DIR": str(launch.folder / f"triton-{part}"),
            "TORCHINDUCTOR_COMPILE_THREADS": str(compilers),
        }
        if arm == "processes":
            env["CUDA_VISIBLE_DEVICES"] = str(part % gpus)
        argv = [
            sys.executable, "-m", "trainer", "--config", str(CONFIG), "--layout", "threads-naive",
            "--race-remedy", "none" if arm == "processes" else arm,
            "--race-threads", str(1 if arm == "processes" else workers),
            "--race-attention", chosen.attention, "--set", f"device={chosen.device}",
            "--set", f"total_steps={chosen.steps}", "--set", f"seed={part + 1}",
        ]  # fmt: skip
        with (launch.folder / f"log-{part}").open("wb") as out:
            launch.processes.append(
                subprocess.Popen(
                    argv, env=env, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
                )
            )
    return launch


def run_arm(
    arm: str, count: int, gpus: int, ends: float, chosen: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    """Up to `count` launches, some at once; yields the counts after each that ended."""
    faces: Counter[str] = Counter()
    failed = launched = begun = 0
    longest = 0.0
    running: list[Launch] = []
    workers = max(2, gpus)
    while True:
        # What cannot end within the budget is not begun.
        room = time.monotonic() + longest < ends
        while room and begun < count and len(running) < chosen.at_once:
            running.append(start(arm, gpus, workers, chosen))
            begun += 1
        if not running:
            return
        if time.monotonic() >= ends:
            for launch in running:
                launch.end()
            return
        for launch in [launch for launch in running if launch.over()]:
            running.remove(launch)
            longest = max(longest, time.monotonic() - launch.began)
            bad, face = launch.end()
            failed, launched = failed + bad, launched + 1
            faces[face] += 1
            yield {
                "failed": failed, "launched": launched, "faces": dict(faces),
                "longest_s": round(longest, 1),
            }  # fmt: skip
        time.sleep(POLL_S)


def count_gpus() -> int:
    """How many GPUs nvidia-smi lists; 1 where it cannot be asked."""
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"nvidia-smi -L: {error}; going on as with one GPU", file=sys.stderr)
        return 1
    return max(1, len(listed.stdout.splitlines()))


def main() -> int:
    """Run the arms within the budget."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--budget", type=float, default=530)
    parser.add_argument("--arms", default="none=20,processes=40,rwlock=20")
    parser.add_argument("--at-once", type=int, default=4)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--attention", choices=("compiled", "direct"), default="compiled")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    chosen = parser.parse_args()
    gpus = count_gpus()
    began = time.monotonic()
    ends = began + chosen.budget
    found: dict[str, Any] = {"gpus": gpus, "attention": chosen.attention}
    for arm, count in (item.split("=") for item in chosen.arms.split(",")):
        for counts in run_arm(arm, int(count), gpus, ends, chosen):
            found[arm] = counts
            found["seconds"] = round(time.monotonic() - began, 1)
            print(json.dumps(found), flush=True)
            out = os.environ.get("OUT")
            if out:
                Path(out, f"race_{chosen.attention}.json").write_text(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
