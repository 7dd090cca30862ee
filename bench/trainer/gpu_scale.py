"""What a second drafter adds: the step on given features, alone and with gradients summed.

    python -m bench.trainer.gpu_scale [--size large] [--steps 30]

One process with one GPU, then two with one each, as the trainer's own crew. Prints one JSON
line with the milliseconds of both and the scaling: drafted tokens a second of two over
twice those of one.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def member(size: str, steps: int) -> int:
    """One process: steps with the gradients summed over all."""
    import torch

    from bench.trainer.gpu_step import SIZES, Loop
    from trainer.config import Config, LayoutConfig
    from trainer.crew import Crew, Place

    place = Place.read()
    crew = Crew(Config(layout=LayoutConfig(drafters=place.size)), place)
    crew.join(crew.device("cuda"))
    crew.share_cores(0)
    loop = Loop(SIZES[size], 1)
    loop.step().read()  # compiled before anybody waits for another

    def sum_gradients() -> None:
        for parameter in loop.drafter.parameters():
            assert parameter.grad is not None
            crew.begin_sum(parameter.grad)
        crew.finish_sums()

    loop.before_update = sum_gradients
    crew.summed([0.0])
    walls = []
    pending = loop.step()
    last = time.perf_counter()
    for _ in range(steps):
        following = loop.step()
        pending.read()
        now = time.perf_counter()
        walls.append((now - last) * 1e3)
        last, pending = now, following
    torch.cuda.synchronize()
    loop.ahead.close()
    crew.summed([0.0])
    if crew.leads:
        print(json.dumps({"ms": round(statistics.median(walls[5:]), 2)}), flush=True)
    crew.leave()
    return 0


def run(count: int, size: str, steps: int) -> float:
    """Milliseconds a step of `count` processes."""
    with tempfile.TemporaryDirectory() as folder:
        argv = [sys.executable, "-m", "bench.trainer.gpu_scale", "--size", size]
        started = [
            subprocess.Popen(
                [*argv, "--steps", str(steps), "--member"], stdout=subprocess.PIPE, text=True,
                env=os.environ | {
                    "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(count),
                    "LOCAL_WORLD_SIZE": str(count),
                    "TRAINER_RENDEZVOUS": str(Path(folder) / "rendezvous"),
                },
            )
            for rank in range(count)
        ]  # fmt: skip
        out = [process.communicate()[0] for process in started]
    return float(json.loads(out[0].splitlines()[-1])["ms"])


def main() -> int:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--size", default="large")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--member", action="store_true")
    chosen = parser.parse_args()
    if chosen.member:
        return member(chosen.size, chosen.steps)
    one, two = (run(count, chosen.size, chosen.steps) for count in (1, 2))
    print(json.dumps({"size": chosen.size, "one_ms": one, "two_ms": two, "scaling": one / two}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
