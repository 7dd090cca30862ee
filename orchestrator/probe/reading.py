"""Op `read`: a range of a file, for crash evidence and for `orch cp`."""

import os

from .frames import Frame, pack
from .ops import Progress

MOST_BYTES = 4 * 1024 * 1024
"""A frame holds 8 MiB, and base64 makes four bytes of three."""


def read(args: Frame, _progress: Progress) -> Frame:
    """`size` bytes from `offset` on (fewer at the end, 4 MiB at most), and the file's size."""
    path, offset = args["path"], int(args.get("offset") or 0)
    wanted = min(int(args.get("size", MOST_BYTES)), MOST_BYTES)
    # Non-blocking, so that a FIFO of that name cannot hold a thread for ever.
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        size = os.fstat(fd).st_size
        if offset < 0:
            offset = max(0, size + offset)
        parts = []
        while wanted > 0 and (part := os.pread(fd, wanted, offset)):
            parts.append(part)
            offset += len(part)
            wanted -= len(part)
    finally:
        os.close(fd)
    return {"data": pack(b"".join(parts)), "size": size}


OPS = {"read": read}
