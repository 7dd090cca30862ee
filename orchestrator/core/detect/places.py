"""Whose code a frame is: the user's own, or a library's."""

import re
from collections.abc import Sequence
from functools import lru_cache

from orchestrator.core.findings import Frame

_LIBRARY = re.compile(
    r"(?:site|dist)-packages/|/lib(?:64)?/python\d|\\lib\\|^<|/\.pyenv/versions/|/conda/lib/|/torch/_?(?:nn|utils|distributed|dynamo|inductor|functorch|autograd|fx|cuda|optim)/"
    r"|/torchinductor_|/\w\w/c\w{40,}\.py$|/torch_compile_debug/|\.triton/cache/|/opt/pytorch/|^/usr/lib/|/python3\.\d+/|/bin/(?:torchrun|accelerate|deepspeed|pytest|ray|python[\d.]*)$|^torch/|^ray::|^\./?$"
)


def in_app(frame: Frame, roots: Sequence[str] = ()) -> bool:
    """Whether the frame is in the user's own code: below one of the roots, or in no library."""
    if any(frame.file.startswith(root) for root in roots):
        return "site-packages/" not in frame.file
    if frame.file.endswith((".pyx", ".pxi", ".pxd")) and not frame.file.startswith("/"):
        return _of_lone_module(frame)
    return not _of_library(frame.file)


def _of_lone_module(frame: Frame) -> bool:
    """Whether a Cython frame is of a module in no package.

    Cython prints the source's path as it was compiled, far from site-packages, and the
    function with its module's whole name: `index.pyx`, `pandas._libs.index.IndexEngine.get_loc`.
    """
    return frame.function.partition(".")[0] == frame.file.rpartition(".")[0]


@lru_cache(maxsize=512)
def _of_library(file: str) -> bool:
    return _LIBRARY.search(file.replace("\\", "/")) is not None


def innermost_in_app(frames: Sequence[Frame], roots: Sequence[str] = ()) -> Frame | None:
    """The last of the frames, given outermost first, that is the user's own; None without one."""
    return next((frame for frame in reversed(frames) if in_app(frame, roots)), None)
