"""Prints a few steps and then waits for a lock that nobody gives back."""

import argparse
import threading

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=3)
options = parser.parse_args()

for step in range(1, options.steps + 1):
    print(f"step {step} loss 1.0", flush=True)


def wait_for_the_other() -> None:
    """Where it stands for ever."""
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


wait_for_the_other()
