"""What a fork of the nursery has as its sys.executable: `python -m orchestrator` is a fork as well.

Stands in the folder of the nursery's socket, behind a first line that names the real Python, which
runs all else. Ends as its fork did; the fork lives on where this is killed.
"""

import array
import json
import os
import signal
import socket
import sys
from pathlib import Path

FORKED = (("-m", "orchestrator"), ("-P", "-c"))


def main(words: list[str]) -> int:
    """Be the program that the words name; its exit code."""
    if tuple(words[:2]) not in FORKED:
        os.execv(sys.executable, [sys.executable, *words])
    umask = os.umask(0)
    os.umask(umask)
    order = {
        "words": words,
        "env": dict(os.environ),
        "folder": os.getcwd(),
        "umask": umask,
        "leads": os.getsid(0) == os.getpid(),
    }
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as link:
        link.connect(str(Path(sys.argv[0]).with_name("orders")))
        files = array.array("i", [0, 1, 2])
        link.sendmsg([json.dumps(order).encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)])
        link.recv(64)  # its PID
        code = int(link.recv(64) or b"1")
    if code < 0:
        signal.signal(-code, signal.SIG_DFL) if -code != signal.SIGKILL else None
        os.kill(os.getpid(), -code)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
