"""A run that lives on and is not well: its numbers say so, and one line of its log."""

import json
import os
import time

RECOMPILES = (
    "W1129 22:00:00.000000 815 torch/_dynamo/convert_frame.py:906] [0/8] "
    "torch._dynamo hit config.recompile_limit (8)\n"
)

begun, at = time.time() - 900.0, 0.0
with open(os.path.join(os.environ["ORCH_RUN_DIR"], "metrics.jsonl"), "a") as metrics:
    for step in range(1, 401):
        # It tells times of its own, so that nobody has to wait for a slow minute.
        at += 1.0 if step <= 280 else 2.4
        loss = 3.0 if step < 350 else None
        line = {"t": begun + at, "step": step, "loss": loss, "phase": "train"}
        metrics.write(json.dumps(line) + "\n")
print(RECOMPILES, end="", flush=True)
time.sleep(600)
