"""Builds the stand-in for NVIDIA's NVML and puts it where programs look for the real one.

Owns the compiler's call and the place. The samples that it shows are those of gpus.py.
"""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from pathlib import Path

SOURCE = Path(__file__).parent / "standins" / "nvml.c"
NAME = "libnvidia-ml.so.1"
FLAGS = ("-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-O1", "-fPIC", "-shared")
PLACE = f"usr/lib/{sysconfig.get_config_var('MULTIARCH') or 'x86_64-linux-gnu'}/{NAME}"
"""Below a root: where the loader of Debian looks without being told."""


def build(folder: Path, driver: int = 580) -> Path:
    """The library of a driver of that major version, in a folder of its own below FOLDER.

    Drivers before 510 and before 450 lack the functions that came then.
    """
    library = folder / f"nvml-{driver}" / NAME
    if not library.exists():
        library.parent.mkdir(parents=True, exist_ok=True)
        fresh = library.with_suffix(".new")
        argv = ["gcc", *FLAGS, "-fvisibility=hidden", f"-DDRIVER={driver}"]
        subprocess.run([*argv, "-o", str(fresh), str(SOURCE)], check=True)
        fresh.rename(library)
    return library


def install(root: Path, library: Path) -> None:
    """Let programs below ROOT find it."""
    # Never written over in place: a program may have the old one mapped.
    remove(root)
    shutil.copy(library, root / PLACE)


def remove(root: Path) -> None:
    """Take it away again; a program that has it open keeps it."""
    (root / PLACE).unlink(missing_ok=True)
