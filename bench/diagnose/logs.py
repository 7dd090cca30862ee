"""Logs to measure on: what a healthy run prints in many forms, and what costs diagnosis most."""

import random
from collections.abc import Callable

Maker = Callable[[random.Random], str]

STACK = (
    "Traceback (most recent call last):\n"
    '  File "/srv/app/train.py", line {line}, in main\n    step(model, batch)\n'
    '  File "/srv/app/train.py", line {line}, in step\n    return model(x)\n'
    "RuntimeError: mat1 and mat2 shapes cannot be multiplied ({size}x5 and 4x2)\n"
)


def ordinary(rng: random.Random) -> str:
    """A megabyte of what a healthy run prints."""
    return "".join(
        f"[2026-01-01 00:{step // 60 % 60:02d}:{step % 60:02d}] step {step} | loss"
        f" {rng.uniform(1, 4):.4f} | lr 1.0e-04 | grad_norm {rng.uniform(0, 2):.2f}"
        f" | {rng.randrange(9000, 13000)} tok/s | errors: 0 | mem 71.2GiB\n"
        for step in range(9000)
    )


def stacks(rng: random.Random) -> str:
    """One traceback after the other, all with numbers of their own."""
    return "".join(
        STACK.format(line=rng.randrange(900), size=rng.randrange(900)) for _ in range(3000)
    )


def torn(rng: random.Random) -> str:
    """Every line begins something and none ends it."""
    heads = ("Traceback (most recent call last):\n", '  File "/a/b.py", line 3, in f\n')
    return "".join(
        rng.choice((*heads, "ValueError: x\n", "Killed by Error: y\n")) for _ in range(30_000)
    )


def sparse(rng: random.Random) -> str:
    """A traceback that was handled, after each hundred healthy lines."""
    healthy = ordinary(rng).splitlines(keepends=True)
    parts = ["".join(healthy[start : start + 100]) for start in range(0, len(healthy), 100)]
    return "".join(
        f"{part}{STACK.format(line=1, size=rng.randrange(900))}skipping this batch\n"
        for part in parts
    )


def speakers(rng: random.Random) -> str:
    """Sixty-four ranks that all print a traceback at once, line by line."""
    blocks = [STACK.format(line=7, size=rng.randrange(900)).splitlines() for _ in range(64)]
    rows = zip(*blocks, strict=True)
    return "".join(
        f"[rank{rank}]: {line}\n" for row in list(rows) * 20 for rank, line in enumerate(row)
    )


def bars(rng: random.Random) -> str:
    """Progress bars, many redrawn within one line."""
    draw = "".join(
        f"\r{done // 10:3d}%|{'#' * (done // 100):<10}| {done}/1000"
        f" [00:{done % 60:02d}<01:00, {rng.uniform(5, 30):.2f}it/s, loss={rng.uniform(1, 4):.3f}]"
        for done in range(1000)
    )
    return f"{draw}\nEpoch 1 done, 0 errors, 0 failed batches\n" * 8


def ranks(rng: random.Random) -> str:
    """Eight ranks and what NCCL and the launcher say at start."""
    said = (
        "node1:{pid}:{pid} [{rank}] NCCL INFO Channel 00/0 : {rank}[0] -> 1[1] via P2P/CUMEM",
        "[rank{rank}]: step {step} loss {loss:.3f} errors=0 failed=0 nan_batches=0",
        "[rank{rank}]:[W1129 19:00:00.1 ProcessGroupNCCL.cpp:1] Warning: timeout is 600000 ms",
        "W1129 19:00:00.000 {pid} torch/distributed/run.py:7] Setting OMP_NUM_THREADS to 1",
    )
    return "".join(
        rng.choice(said).format(
            rank=rng.randrange(8), pid=rng.randrange(9999), step=step, loss=rng.uniform(1, 4)
        )
        + "\n"
        for step in range(9000)
    )


def samples(rng: random.Random) -> str:
    """A language model's own texts, some of them about failures."""
    words = (
        "the error was killed by a signal and the exception aborted",
        "Traceback is a word, so is Segmentation fault, and CUDA out of memory too",
        "fatal: could not read it, said the program; it crashed and exited with code 1",
        "nothing happened at all and the training went on",
    )
    return "".join(
        f"step {step} loss {rng.uniform(1, 4):.3f}\n  sample {step}: {rng.choice(words)}\n"
        for step in range(6000)
    )


def records(rng: random.Random) -> str:
    """One JSON object a line."""
    return "".join(
        f'{{"step": {step}, "loss": {rng.uniform(1, 4):.4f}, "level": "INFO", "error": null,'
        f' "message": "ok, no exception", "failed": 0, "exit_code": 0}}\n'
        for step in range(9000)
    )


def warned(rng: random.Random) -> str:
    """Warnings of libraries and handled errors among healthy steps."""
    said = (
        "/srv/env/lib/python3.11/site-packages/torch/nn/x.py:71: UserWarning: Error rate is high",
        "WARNING: Retrying (attempt 1 of 5) after ConnectionError; will retry in 2 s",
        "ERROR: batch skipped: decode failed for one image, continuing",
        "[W] OOM at batch 64, falling back to 32",
        "step {step} loss {loss:.3f} lr 1e-4 12000 tok/s",
        "step {step} loss {loss:.3f} lr 1e-4 12010 tok/s",
    )
    return "".join(
        rng.choice(said).format(step=step, loss=rng.uniform(1, 4)) + "\n" for step in range(9000)
    )


COSTLY: dict[str, Maker] = {
    "ordinary": ordinary,
    "stacks": stacks,
    "torn": torn,
    "sparse": sparse,
    "speakers": speakers,
}
CLEAN: dict[str, Maker] = {
    "ordinary": ordinary,
    "bars": bars,
    "ranks": ranks,
    "samples": samples,
    "records": records,
    "warned": warned,
    "sparse": sparse,
}
END = "step 9000 loss 1.2345 lr 1e-4 12000 tok/s\ntraining finished\n"
