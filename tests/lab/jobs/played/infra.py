"""Fails like a port that is taken, for its first attempts; then trains a little and ends well."""

import argparse
import os
import sys
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--fail", type=int, default=1, help="attempts that fail")
parser.add_argument("--code", type=int, default=1, help="exit code of a failure")
options = parser.parse_args()

attempt = int(os.environ["ORCH_ATTEMPT"])
with (Path(os.environ["ORCH_RUN_DIR"]) / "attempts").open("a") as seen:
    seen.write(f"{attempt}\n")
print(f"attempt {attempt} in {os.environ['ORCH_RUN_DIR']}", flush=True)
if attempt <= options.fail:
    print(
        "Traceback (most recent call last):\n"
        '  File "train.py", line 7, in <module>\n'
        "    dist.init_process_group('nccl')\n"
        "torch.distributed.DistNetworkError: The server socket has failed to listen on any local "
        "network address. port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: "
        "address already in use",
        flush=True,
    )
    sys.exit(options.code)
for step in range(1, 6):
    print(f"step {step} loss {9.0 / step:.4f}", flush=True)
