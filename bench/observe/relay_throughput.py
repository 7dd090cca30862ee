"""How fast a program can print through the relay in tmux, against a bare pty copied to a file.

    python -m bench.observe.relay_throughput [ROUNDS] [--json FILE]          (default: 15)

Both are measured in turn, so that what else the machine does hits both alike. `ratio` is the
median of the rounds' own ratios.
"""

import argparse
import json
import os
import pty
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.observe.figures import keep
from orchestrator.link.package import probe_package

PRINTED_BYTES = 50_000_000
PROGRAM = f"""
import os
block = (b"x" * 79 + b"\\n") * 800
left = {PRINTED_BYTES}
while left > 0:
    left -= os.write(1, block)
"""
ARGV = [sys.executable, "-c", PROGRAM]


def bare(folder: Path) -> float:
    """MB/s of the plainest loop: read the pty, append to a file."""
    begun = time.monotonic()
    pid, master = pty.fork()
    if pid == 0:
        os.execv(ARGV[0], ARGV)
    copied = 0
    with open(folder / "bare.log", "wb", buffering=0) as log:
        while True:
            try:
                chunk = os.read(master, 65536)
            except OSError:
                break
            log.write(chunk)
            copied += len(chunk)
    os.waitpid(pid, 0)
    os.close(master)
    return copied / (time.monotonic() - begun) / 1e6


def relayed(folder: Path, pyz: Path, number: int, env: dict[str, str]) -> float:
    """MB/s of the same program under the relay, in a pane of a tmux that draws it."""
    attempt = folder / f"attempt-{number}"
    attempt.mkdir()
    os.mkfifo(attempt / "spec", 0o600)
    relay = [sys.executable, "-I", "-S", str(pyz), "attempt", str(attempt)]
    session = ["tmux", "new-session", "-d", "-x", "200", "-y", "50", "-s", f"run-{number}"]
    subprocess.run([*session, "--", *relay], env=env, check=True)
    spec = {"run": "bench-1", "uid": "0", "attempt": 1, "session": "bench"}
    text = json.dumps({**spec, "argv": ARGV, "env": dict(os.environ), "cwd": str(folder)})
    (attempt / "spec").write_text(text)
    while not (attempt / "exit.json").exists():
        time.sleep(0.01)
    record = json.loads((attempt / "exit.json").read_text())
    (attempt / "output.log").unlink()
    return float(record["log_bytes"] / (record["ended_at"] - record["started_at"]) / 1e6)


def main() -> None:
    """Print each round and the medians."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.observe.relay_throughput",
        description="How fast a program can print through the relay, against a bare pty.",
    )
    parser.add_argument("rounds", nargs="?", type=int, default=15, metavar="ROUNDS")
    parser.add_argument("--json", metavar="FILE", help="write the figures there as well")
    words = parser.parse_args()
    rates = []
    with tempfile.TemporaryDirectory(prefix="orch-bench-", dir="/dev/shm") as name:
        folder = Path(name)
        pyz = folder / "probe.pyz"
        pyz.write_bytes(probe_package().content)
        env = {**os.environ, "TMUX_TMPDIR": name}
        for number in range(words.rounds):
            rates.append((bare(folder), relayed(folder, pyz, number, env)))
            print("bare {:.0f} MB/s, relay {:.0f} MB/s".format(*rates[-1]), flush=True)
        subprocess.run(["tmux", "kill-server"], env=env, check=True)
    ratio = statistics.median(relay / plain for plain, relay in rates)
    plain, relay = (statistics.median(column) for column in zip(*rates, strict=True))
    print(f"median: bare {plain:.0f} MB/s, relay {relay:.0f} MB/s, ratio {ratio:.2f}")
    rounds = [{"bare_mb_s": round(one, 1), "relay_mb_s": round(two, 1)} for one, two in rates]
    found = {"bare_mb_s": round(plain, 1), "relay_mb_s": round(relay, 1), "ratio": round(ratio, 3)}
    keep(words.json, {**found, "rounds": rounds})


if __name__ == "__main__":
    main()
