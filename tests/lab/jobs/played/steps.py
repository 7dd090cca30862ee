"""A healthy run: prints steps, adds to metrics.jsonl in its run folder, exits as told."""

import argparse
import json
import os
import sys
import time

parser = argparse.ArgumentParser()
parser.add_argument("--count", type=int, default=20, help="steps; 0 goes on for ever")
parser.add_argument("--pause", type=float, default=0.05, help="seconds a step")
parser.add_argument("--exit", type=int, default=0, help="exit code")
options = parser.parse_args()

folder = os.environ.get("ORCH_RUN_DIR")
step = 0
while not options.count or step < options.count:
    step += 1
    loss = round(9.0 / (1 + step / 10), 4)
    print(f"step {step} loss {loss}", flush=True)
    if folder:
        line = {"t": time.time(), "step": step, "loss": loss, "phase": "train"}
        with open(os.path.join(folder, "metrics.jsonl"), "a") as metrics:
            metrics.write(json.dumps(line) + "\n")
    time.sleep(options.pause)
sys.exit(options.exit)
