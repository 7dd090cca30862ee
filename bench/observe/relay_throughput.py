"""How fast a program can print through the relay in tmux, against a bare pty copied to a file.

    python -m bench.observe.relay_throughput [ROUNDS]

Both are measured in turn, so that what else the machine does hits both alike.
"""

import json
import os
import pty
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from orchestrator.link.package import probe_package

PRINTED_BYTES = 100_000_000
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
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    rates = []
    with tempfile.TemporaryDirectory(prefix="orch-bench-", dir="/dev/shm") as name:
        folder = Path(name)
        pyz = folder / "probe.pyz"
        pyz.write_bytes(probe_package().content)
        env = {**os.environ, "TMUX_TMPDIR": name}
        for number in range(rounds):
            rates.append((bare(folder), relayed(folder, pyz, number, env)))
            print("bare {:.0f} MB/s, relay {:.0f} MB/s".format(*rates[-1]), flush=True)
        subprocess.run(["tmux", "kill-server"], env=env, check=True)
    ratio = statistics.median(relay / plain for plain, relay in rates)
    plain, relay = (statistics.median(column) for column in zip(*rates, strict=True))
    print(f"median: bare {plain:.0f} MB/s, relay {relay:.0f} MB/s, ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
