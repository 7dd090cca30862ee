"""Measure the drafter step on one GPU: correctness, milliseconds, memory, cold and warm start.

    python -m bench.trainer.gpu_bench [--budget 530]
        [--parts check,large1,large1warm,large1bare,large2,small,smalleager,parity,attention]
        [--parts large1,specforge:large1,speculators:large1 with PEERS=FOLDER]

Every part is a process of its own with caches of its own, so that a failure or a segfault
of one loses nothing of the rest, and peaks and cold starts are its own; what a part had
found before it failed is kept. Prints one JSON line a part, then one with all of them.
Qwen3-8B's size and the small one are those of docs/lab-notes.md; features are given, every
position is supervised, anchors are fresh each step, AdamW, bfloat16. Python's bytecode is
there from the first part on, as pip leaves it on a machine where nothing forbids that
(`large1bare`: as this machine has it).
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

PARTS = (
    "check", "large1", "large1warm", "large1bare", "large2", "small", "smalleager", "parity",
    "attention",
)  # fmt: skip
PEERS = tuple(
    f"{peer}:{size}" for size in ("large1", "large2", "small1")
    for peer in ("specforge", "speculators")
)  # fmt: skip
"""Parts that are run where they are named; they need the folder PEERS (gpu_peers.py)."""
SHARE_S = 35
"""Kept for each part that is still to come."""


def driver(parts: list[str], budget_s: float) -> int:
    """Run the parts one after the other and print what they found."""
    ends = time.monotonic() + budget_s
    found: dict[str, Any] = {}
    caches = Path(tempfile.mkdtemp(prefix="trainer-bench-"))
    for number, part in enumerate(parts):
        left = ends - time.monotonic()
        if left < 20:
            found[part] = {"error": "no time left"}
        else:
            # `large1warm` starts with what `large1` compiled.
            folder = caches / part.removesuffix("warm")
            later = SHARE_S * (len(parts) - number - 1)
            found[part] = run_part(part, folder, max(20.0, min(left, max(60.0, left - later))))
        print(json.dumps({part: found[part]}), flush=True)
        out = os.environ.get("OUT")
        if out:
            Path(out, "gpu_bench.json").write_text(json.dumps(found, indent=1))
    print(json.dumps(found))
    return 0


def run_part(part: str, folder: Path, limit_s: float) -> dict[str, Any]:
    """What the process of one part found; each line that it prints is merged."""
    env = os.environ | {
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "TRITON_CACHE_DIR": str(folder / "triton"),
        "BENCH_BEGAN": repr(time.time()),
    }
    if not part.endswith("bare"):
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        env["PYTHONPYCACHEPREFIX"] = str(folder.parent / "bytecode")
    argv = [sys.executable, "-m", "bench.trainer.gpu_bench", "--child", part]
    log, errors = folder.with_suffix(f".{part}.out"), folder.with_suffix(f".{part}.err")
    found: dict[str, Any] = {}
    with log.open("wb") as out, errors.open("wb") as err:
        # A session of its own, so that the compiler's workers end with it.
        running = subprocess.Popen(argv, env=env, stdout=out, stderr=err, start_new_session=True)
        try:
            code: int | str = running.wait(limit_s)
        except subprocess.TimeoutExpired:
            code = f"out of time after {limit_s:.0f} s"
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
        running.wait()
    for line in log.read_text(errors="replace").splitlines():
        if line.startswith("{"):
            with contextlib.suppress(json.JSONDecodeError):
                found |= json.loads(line)
    if code != 0:
        found |= {"exit": code, "stderr": errors.read_text(errors="replace")[-3000:]}
    return found


def child(part: str) -> int:
    """Run one part, which prints its findings as JSON lines."""
    from bench.trainer.gpu_check import attention, check
    from bench.trainer.gpu_parity import parity
    from bench.trainer.gpu_peers import measure as measure_peer
    from bench.trainer.gpu_step import measure

    actions: dict[str, Callable[[], None]] = {
        "check": lambda: print(json.dumps(check()), flush=True),
        "large1": lambda: measure("large", 1, profile=True),
        "large1warm": lambda: measure("large", 1, profile=False),
        "large1bare": lambda: measure("large", 1, profile=False),
        "parity": lambda: print(json.dumps(parity()), flush=True),
        "large2": lambda: measure("large", 2, profile=False),
        "small": lambda: measure("small", 1, profile=True, replayed=True),
        "smalleager": lambda: measure("small", 1, profile=False),
        "attention": attention,
    }
    for peer in PEERS:
        name, size = peer.split(":")
        actions[peer] = partial(measure_peer, name, size[:-1], int(size[-1]))
    import torch

    print(json.dumps({"torch": torch.__version__}), flush=True)
    try:
        actions[part]()
    except Exception:  # noqa: BLE001  # whatever it is, the other parts must go on
        print(json.dumps({"error": traceback.format_exc()[-3500:]}), flush=True)
        return 1
    print(json.dumps({"card": torch.cuda.get_device_name()}), flush=True)
    return 0


def main() -> int:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--budget", type=float, default=530, help="seconds for all parts")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--child", default="")
    chosen = parser.parse_args()
    if chosen.child:
        return child(chosen.child)
    return driver(chosen.parts.split(","), chosen.budget)


if __name__ == "__main__":
    sys.exit(main())
