"""Measures `diagnose`: MB/s and memory beside grep, samples by class, false alarms on clean logs.

    python -m bench.diagnose [speed] [samples] [alarms] [--mb 500] [--clean-mb 1000] [--seed 7]

Each log is written to a temporary file and read from it by both programs, grep with the literals
of the same signatures; diagnosis reads it in pieces of 4 MiB, as `orch diagnose` does, and of
16 KiB, as output of a run arrives. Speed is per second of CPU: others use the machine too.
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

from bench.diagnose.logs import CLEAN, COSTLY, END, sparse
from orchestrator.core.detect.engine import diagnose
from orchestrator.core.detect.signatures import load

LITERALS = (
    "Traceback|Error|Exception|Fatal Python error|terminate called|Killed|Segmentation fault"
    "|out of memory|CUDA error|NVRM: Xid|NCCL|SIGTERM|No space left|Watchdog caught|exitcode"
)
PIECES = (4 << 20, 16 << 10)
LOG_MB = 50
"""Of one clean log."""
SAMPLES = Path(__file__).parents[2] / "tests" / "core" / "detect" / "samples"


def write(path: Path, text: str, size_mb: float) -> int:
    data = text.encode()
    with path.open("wb") as file:
        while file.tell() < size_mb * 1e6:
            file.write(data)
        return file.tell()


def pieces(path: Path, size: int) -> Iterator[bytes]:
    with path.open("rb") as file:
        while data := file.read(size):
            yield data


def grep_s(path: Path) -> float:
    """Seconds of CPU that grep needs for the file."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    # Into a pipe: with /dev/null as its output grep stops at the first match.
    subprocess.run(["grep", "-c", "-E", LITERALS, str(path)], capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def compare(name: str, text: str, size_mb: float, folder: Path) -> None:
    """One line: MB per CPU second of both programs on the same file, and their ratio."""
    path = folder / "log"
    size = write(path, text, size_mb)
    for _ in pieces(path, PIECES[0]):
        pass
    grep = size / 1e6 / grep_s(path)
    said = f"{name:<10} {size / 1e6:6.0f} MB  grep {grep:7.1f} MB/s"
    for piece in PIECES:
        started = time.process_time()
        diagnose(pieces(path, piece))
        ours = size / 1e6 / (time.process_time() - started)
        said += f" | by {piece >> 10:4d} KiB {ours:6.1f} MB/s, ratio {ours / grep:5.2f}"
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{said} | peak {memory} MB", flush=True)
    path.unlink()


def speed(size_mb: float, rng: random.Random) -> None:
    # The databases of patterns are compiled once a process; a flood needs all of them.
    diagnose([sparse(rng).encode()] * 16)
    with tempfile.TemporaryDirectory() as name:
        for kind, maker in COSTLY.items():
            compare(kind, maker(rng), size_mb * (2 if kind == "ordinary" else 1), Path(name))


def samples() -> None:
    expected = json.loads((SAMPLES / "expected.json").read_text())
    counted = Counter(str(item["signature"]) for item in expected.values() if item["crash"])
    for signature in sorted({item.id for item in load()}):
        print(f"{signature:<22} {counted[signature]:3d} samples")


def alarms(total_mb: float, rng: random.Random) -> None:
    """Clean logs, synthetic and written like real ones, and how many were called a crash."""
    texts = [path.read_bytes() for path in sorted(SAMPLES.glob("fine_*.log"))]
    wrong = sum(diagnose([text]).crash for text in texts)
    print(f"clean logs in the form of real ones: {len(texts)}, false alarms {wrong}", flush=True)
    seen: Counter[str] = Counter()
    false: Counter[str] = Counter()
    while sum(seen.values()) < total_mb * 1e6:
        for kind, maker in CLEAN.items():
            block = maker(rng).encode()
            count = int(LOG_MB * 1e6 / len(block))
            parts = (
                [block] * count if rng.random() < 0.5 else [maker(rng).encode(), *[block] * count]
            )
            verdict = diagnose([*parts, END.encode()])
            seen[kind] += sum(map(len, parts))
            if verdict.crash:
                false[kind] += 1
                print(f"FALSE ALARM on {kind}: {verdict.signature} line {verdict.line}")
    for kind, size in seen.items():
        print(f"synthetic clean logs, {kind:<9} {size / 1e6:6.0f} MB, false alarms {false[kind]}")
    print(f"all: {sum(seen.values()) / 1e6:.0f} MB, false alarms {sum(false.values())}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.diagnose")
    parser.add_argument("parts", nargs="*", default=["speed", "samples", "alarms"])
    parser.add_argument("--mb", type=float, default=500)
    parser.add_argument("--clean-mb", type=float, default=1000)
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    if "speed" in options.parts:
        speed(options.mb, rng)
    if "samples" in options.parts:
        samples()
    if "alarms" in options.parts:
        alarms(options.clean_mb, rng)
    return 0


if __name__ == "__main__":
    sys.exit(main())
