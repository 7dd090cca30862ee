"""The thread-local-flag remedy: each thread sees only its own tracing.

It owns a patch of torch 2.10 to 2.13, where the flag is a module's global; from 2.14 on
the flag is a thread's own already and nothing is done. It removes the message, not the
unsafety: compiling in several threads can still end in a segmentation fault.
"""

import functools
import sys
import threading
import types
from typing import Any

import torch.fx._symbolic_trace as symbolic_trace

FLAG = "_is_fx_tracing_flag"
_LOCAL = "_tracing_of_thread"


def install() -> bool:
    """Patch torch once, before any thread starts; False where there is nothing to patch."""
    if FLAG not in vars(symbolic_trace):
        return False
    if _LOCAL in vars(symbolic_trace):
        return True
    setattr(symbolic_trace, _LOCAL, threading.local())
    # The code is swapped inside the function objects, since torch.compile has captured them.
    for name, reader in (("is_fx_tracing", _tracing), ("is_fx_symbolic_tracing", _symbolic)):
        getattr(symbolic_trace, name).__code__ = reader.__code__
    symbolic_trace.__class__ = _FlagOfThread
    symbolic_trace.Tracer.trace = _own_trace(symbolic_trace.Tracer.trace)  # type: ignore[method-assign]  # the patch itself
    return True


class _FlagOfThread(types.ModuleType):
    """The module's flag, as other modules read and write it, is the calling thread's."""

    @property
    def _is_fx_tracing_flag(self) -> bool:
        return bool(getattr(vars(self)[_LOCAL], "on", False))

    @_is_fx_tracing_flag.setter
    def _is_fx_tracing_flag(self, on: bool) -> None:
        vars(self)[_LOCAL].on = on


def _own_trace(trace: Any) -> Any:
    from torch._dynamo.convert_frame import compile_lock

    @functools.wraps(trace)
    def traced(*args: Any, **kwargs: Any) -> Any:
        # The same lock that dynamo holds while it compiles: no second order of locks.
        with compile_lock:
            local = vars(symbolic_trace)[_LOCAL]
            before = getattr(local, "on", False)
            local.on = True
            try:
                return trace(*args, **kwargs)
            finally:
                local.on = before

    return traced


def _tracing() -> bool:
    return getattr(_tracing_of_thread, "on", False)  # type: ignore[name-defined]  # noqa: F821  # runs with the patched module's globals


def _symbolic() -> bool:
    return (
        getattr(_tracing_of_thread, "on", False)  # type: ignore[name-defined]  # noqa: F821  # as above
        and not torch.compiler.is_compiling()  # type: ignore[name-defined]  # noqa: F821  # as above
    )


def flag_stuck() -> bool:
    """Whether this thread believes, outside any trace, that FX is tracing."""
    return bool(sys.modules[symbolic_trace.__name__].is_fx_symbolic_tracing())
