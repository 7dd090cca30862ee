"""Prints one step and then works without a word, as a long compile does; ends well."""

import argparse
import time

parser = argparse.ArgumentParser()
parser.add_argument("--seconds", type=float, default=12.0)
options = parser.parse_args()

print("step 1 loss 1.0", flush=True)
end = time.monotonic() + options.seconds
count = 0
while time.monotonic() < end:
    count += sum(number * number for number in range(10_000 + count % 7))
print("step 2 loss 1.0", flush=True)
