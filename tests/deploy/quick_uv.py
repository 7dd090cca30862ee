"""A target on which making an environment costs nothing."""

import sys
from pathlib import Path

UV = """#!/bin/sh
while [ $# -gt 1 ]; do shift; done
mkdir -p "$1/bin"
"""
"""Makes an environment that is an empty folder."""


def python_beside_uv(folder: Path) -> str:
    """An interpreter in a new folder, in which that uv is as well."""
    folder.mkdir()
    (folder / "python3").symlink_to(sys.executable)
    (folder / "uv").write_text(UV)
    (folder / "uv").chmod(0o755)
    return str(folder / "python3")
