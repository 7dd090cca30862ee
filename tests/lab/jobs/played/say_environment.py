"""Prints what a launch gave it as one JSON line: arguments, folder, environment, terminal."""

import json
import os
import sys

print(
    json.dumps(
        {
            "argv": sys.argv[1:],
            "cwd": os.getcwd(),
            "environment": dict(os.environ),
            "tty": [os.isatty(fd) for fd in range(3)],
            "size": list(os.get_terminal_size(1)) if os.isatty(1) else None,
            "uid": os.getuid(),
        }
    ),
    flush=True,
)
