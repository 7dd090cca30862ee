"""Writes as fast as it can: numbered lines with a check, so that a lost or doubled byte shows."""

import argparse
import os
import time

parser = argparse.ArgumentParser()
parser.add_argument("--mib", type=int, default=16, help="how much to write")
parser.add_argument("--form", choices=["lines", "one-line", "binary", "cursor"], default="lines")
parser.add_argument("--file", default="", help="append there instead of printing")
options = parser.parse_args()

CHUNK = 1 << 16
CURSOR = b"\x1b[2J\x1b[H\x1b[10A\x1b]0;title\x07\r\x1b[K progress \x08\x08\x1b[?1049h\x1b[?1049l"
target = options.mib << 20
out = os.open(options.file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644) if options.file else 1


def put(block: bytes) -> None:
    """Write the whole BLOCK."""
    view = memoryview(block)
    while view:
        view = view[os.write(out, view) :]


began = time.time()
written, number = 0, 0
while written < target:
    if options.form == "lines":
        block = b"".join(b"%010d %s\n" % (n, b"x" * 85) for n in range(number, number + 640))
        number += 640
    elif options.form == "one-line":
        block = b"y" * CHUNK
    elif options.form == "binary":
        block = os.urandom(CHUNK)
    else:
        block = CURSOR * (CHUNK // len(CURSOR))
    put(block)
    written += len(block)
put(b"\nflood done: %d bytes in %.3f s\n" % (written, time.time() - began))
