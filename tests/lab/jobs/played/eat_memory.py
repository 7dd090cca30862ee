"""Uses more and more memory until the kernel ends it, or until --mib are in use."""

import argparse
import time

parser = argparse.ArgumentParser()
parser.add_argument("--mib", type=int, default=1 << 20)
parser.add_argument("--after", type=float, default=0.0, help="seconds of doing nothing before")
options = parser.parse_args()

time.sleep(options.after)
held = []
for used in range(0, options.mib, 8):
    held.append(bytearray(b"\x01") * (8 << 20))
    print(f"using {used + 8} MiB", flush=True)
