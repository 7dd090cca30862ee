"""What the probe sees of real GPUs once a second, and what that costs it.

    python -m bench.observe.probe_on_gpus [--seconds 20] [--json FILE]

Needs the driver and a Python with torch, whose matrix products keep each GPU busy as a
process of its own. Prints the newest sample of each GPU, who was seen on it, the frames that
came, the probe's share of a core and its memory.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

BUSY = """
import time, torch
x = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
ends = time.monotonic() + {seconds}
while time.monotonic() < ends:
    for _ in range(50):
        y = x @ x
    torch.cuda.synchronize()
"""


def cpu_s(pid: int) -> float:
    """Processor time of a process, seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rss_mb(pid: int) -> float:
    """Resident memory of a process, MB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 1e6, 1)


def watch(probe: "subprocess.Popen[bytes]", seconds: float) -> dict[str, Any]:
    """Frames of GPUs for so long; the first is left out of the cost, since it loads the driver."""
    assert probe.stdin is not None
    assert probe.stdout is not None
    call = {"kind": "call", "id": 1, "op": "gpus", "args": {"interval_s": 1.0, "host": True}}
    probe.stdin.write(json.dumps(call).encode() + b"\n")
    probe.stdin.flush()
    frames: list[dict[str, Any]] = []
    began = cost = 0.0
    pinged = time.monotonic()
    for line in probe.stdout:
        frame = json.loads(line)
        if frame["kind"] != "gpus":
            continue
        frames.append(frame)
        if len(frames) == 1:
            began, cost = time.monotonic(), cpu_s(probe.pid)
        if time.monotonic() - pinged > 5:
            pinged = time.monotonic()
            probe.stdin.write(b'{"kind":"ping","n":1}\n')
            probe.stdin.flush()
        if time.monotonic() - began > seconds:
            break
    took = time.monotonic() - began
    return {
        "seconds": round(took, 1), "frames": len(frames) - 1, "source": frames[-1]["source"],
        "probe_cores": round((cpu_s(probe.pid) - cost) / took, 4),
        "probe_mb": rss_mb(probe.pid), "newest": frames[-1]["samples"],
        "error": frames[-1].get("error"),
    }  # fmt: skip


def main() -> None:
    """Keep every GPU busy and look."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True)
    program = BUSY.format(seconds=chosen.seconds + 25)
    busy = [
        subprocess.Popen(
            [sys.executable, "-c", program],
            env=os.environ | {"CUDA_VISIBLE_DEVICES": str(number), "ORCH_RUN_ID": f"busy-{number}"},
        )
        for number in range(len(listed.stdout.splitlines()))
    ]
    time.sleep(15)  # torch is imported and the products run
    argv = ["-E", "-m", "orchestrator.probe", "serve", "--generation", "1", "--key", "bench"]
    probe = subprocess.Popen([sys.executable, *argv], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        found = watch(probe, chosen.seconds)
    finally:
        for one in (probe, *busy):
            one.kill()
            one.wait()
    found["busy_pids"] = [one.pid for one in busy]
    print(json.dumps(found))
    if chosen.json:
        chosen.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
