"""Prints a little, then dies of SIGKILL (or another signal) without a word."""

import argparse
import os
import signal

parser = argparse.ArgumentParser()
parser.add_argument("--signal", default="KILL", help="its name without SIG")
parser.add_argument("--lines", type=int, default=5)
options = parser.parse_args()

for step in range(1, options.lines + 1):
    print(f"step {step} loss {9.0 / step:.4f}", flush=True)
os.kill(os.getpid(), signal.Signals[f"SIG{options.signal}"])
signal.pause()
