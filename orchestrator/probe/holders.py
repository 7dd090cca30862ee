"""Who holds memory of a GPU: a PID of the driver joined to command, container, pane and run.

Owns what is remembered of a process between two samples: its identity does not change, so that
/proc is read once for each and not every two seconds.
"""

from . import join, procfs
from .frames import Frame
from .processes import uses_gpu

_ANCESTORS = 16
_known: dict[tuple[int, int], Frame] = {}


def holder(pid: int, memory_bytes: int | None, *, on_host: bool) -> Frame:
    """A process on a GPU as `GpuSample.processes` has it.

    Inside a container the driver may give the host's PIDs, so that there only one is named that
    is seen to use a GPU; on the host itself (`on_host`) every PID is what it says.
    """
    frame: Frame = {"pid": pid, "memory_bytes": memory_bytes}
    start = procfs.start_time(pid)
    if start is not None and (on_host or uses_gpu(pid)):
        if (pid, start) not in _known:
            _known[pid, start] = {"start": start, **_identity(pid)}
        frame |= _known[pid, start]
    return frame


def forget_others(present: set[int]) -> None:
    """Remember none but these PIDs."""
    for key in [key for key in _known if key[0] not in present]:
        del _known[key]


def _identity(pid: int) -> Frame:
    place, belongs = join.place_of(pid), join.run_of(pid)
    environment = procfs.environment(pid)
    return {
        "command": procfs.command_line(pid),
        "run": belongs.run,
        "run_dir": belongs.directory,
        "container": place.container,
        "container_pid": place.pid,
        "pane": _pane(pid, environment),
    }


def _pane(pid: int, environment: dict[str, str]) -> str | None:
    """tmux's name of the pane that it descends from: the relay above a run has it, the run not."""
    for _ in range(_ANCESTORS):
        if "TMUX_PANE" in environment:
            return environment["TMUX_PANE"]
        entry = procfs.stat(pid)
        if entry is None or entry.parent <= 1:
            return None
        pid = entry.parent
        environment = procfs.environment(pid)
    return None
