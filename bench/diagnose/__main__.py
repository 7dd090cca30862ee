"""Measures `diagnose`: MB/s and memory beside grep, samples by class, false alarms on clean logs.

    python -m bench.diagnose [--ordinary-mb 1000] [--clean-mb 1000]

Each log is written to a temporary file and read from it by both programs, grep with the literals
of the same signatures.
"""

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from orchestrator.core.detect.engine import diagnose
from orchestrator.core.detect.signatures import load

LITERALS = (
    "Traceback|Error|Exception|Fatal Python error|terminate called|Killed|Segmentation fault"
    "|out of memory|CUDA error|NVRM: Xid|NCCL|SIGTERM|No space left|Watchdog caught|exitcode"
)
STACK = (
    "Traceback (most recent call last):\n"
    '  File "/srv/app/train.py", line {line}, in main\n    step(model, batch)\n'
    '  File "/srv/app/train.py", line {line}, in step\n    return model(x)\n'
    "RuntimeError: mat1 and mat2 shapes cannot be multiplied ({size}x5 and 4x2)\n"
)
CHUNK = 4 << 20
SAMPLES = Path(__file__).parents[2] / "tests" / "core" / "detect" / "samples"


def ordinary(rng: random.Random) -> str:
    """A megabyte of what a healthy run prints."""
    return "".join(
        f"[2026-01-01 00:{step // 60 % 60:02d}:{step % 60:02d}] step {step} | loss"
        f" {rng.uniform(1, 4):.4f} | lr 1.0e-04 | grad_norm {rng.uniform(0, 2):.2f}"
        f" | {rng.randrange(9000, 13000)} tok/s | errors: 0 | mem 71.2GiB\n"
        for step in range(9000)
    )


def worst(rng: random.Random) -> str:
    """Every line begins something and none ends it."""
    heads = ("Traceback (most recent call last):\n", '  File "/a/b.py", line 3, in f\n')
    return "".join(
        rng.choice((*heads, "ValueError: x\n", "Killed by Error: y\n")) for _ in range(30_000)
    )


def stacks(rng: random.Random) -> str:
    """One traceback after the other, all with numbers of their own."""
    return "".join(
        STACK.format(line=rng.randrange(900), size=rng.randrange(900)) for _ in range(3000)
    )


def write(path: Path, text: str, size_mb: float) -> int:
    data = text.encode()
    with path.open("wb") as file:
        while file.tell() < size_mb * 1e6:
            file.write(data)
        return file.tell()


def chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while data := file.read(CHUNK):
            yield data


def children_s() -> float:
    """CPU seconds of the programs started from here; others on the machine skew the clock."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def compare(name: str, text: str, size_mb: float, folder: Path) -> None:
    """One line: MB per CPU second of both programs on the same file, and their ratio."""
    path = folder / "log"
    size = write(path, text, size_mb)
    for _ in chunks(path):
        pass
    started = children_s()
    # Into a pipe: with /dev/null as its output grep stops at the first match.
    subprocess.run(["grep", "-c", "-E", LITERALS, str(path)], capture_output=True, check=False)
    grep = size / 1e6 / (children_s() - started)
    started = time.process_time()
    verdict = diagnose(chunks(path))
    ours = size / 1e6 / (time.process_time() - started)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(
        f"{name:<10} {size / 1e6:7.0f} MB  grep {grep:7.1f} MB/s  diagnose {ours:7.1f} MB/s"
        f"  ratio {ours / grep:5.2f}  peak {memory} MB  {verdict.verdict}"
    )
    path.unlink()


def false_alarms(total_mb: float, rng: random.Random) -> None:
    """Clean logs, synthetic and written like real ones, and how many were called a crash."""
    texts = [path.read_bytes() for path in sorted(SAMPLES.glob("fine_*.log"))]
    alarms = sum(diagnose([text]).crash for text in texts)
    print(f"clean logs in the form of real ones: {len(texts)}, false alarms {alarms}")
    seen, alarms = 0.0, 0
    while seen < total_mb:
        blocks = [ordinary(rng).encode() for _ in range(4)]
        alarms += diagnose(rng.choice(blocks) for _ in range(50)).crash
        seen += 50 * len(blocks[0]) / 1e6
    print(f"synthetic clean logs: {seen:.0f} MB, false alarms {alarms}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.diagnose")
    parser.add_argument("--ordinary-mb", type=float, default=1000)
    parser.add_argument("--clean-mb", type=float, default=1000)
    options = parser.parse_args()
    rng = random.Random(7)
    with tempfile.TemporaryDirectory() as name:
        compare("ordinary", ordinary(rng), options.ordinary_mb, Path(name))
        compare("stacks", stacks(rng), 500, Path(name))
        compare("worst", worst(rng), 500, Path(name))
    expected = json.loads((SAMPLES / "expected.json").read_text())
    counted = Counter(str(item["signature"]) for item in expected.values() if item["crash"])
    for signature in sorted({item.id for item in load()}):
        print(f"{signature:<22} {counted[signature]:3d} samples")
    false_alarms(options.clean_mb, rng)
    return 0


if __name__ == "__main__":
    sys.exit(main())
