"""Ends the daemon of an inventory, also one that hangs: asked first, then by its PID.

A PID is signalled only where the daemon's note names it with the start time that it has. Runs are
never touched.
"""

import contextlib
import os
import signal
import time

from orchestrator.api.answers import DaemonSilent
from orchestrator.api.client import ALIVE_WITHIN_S, Client
from orchestrator.api.location import Location, daemon_socket, living
from orchestrator.cli.output import note
from orchestrator.core.errors import DaemonError, NoDaemon
from orchestrator.probe import procfs

ASKED_S = 30.0
TERMINATED_S = 10.0
KILLED_S = 10.0
_POLL_S = 0.02


def end_daemon(location: Location) -> str:
    """End the daemon and wait until its process has gone; the sentence that says how."""
    process = living(location)
    client = Client(daemon_socket(location), timeout_s=ALIVE_WITHIN_S)
    try:
        client.call("POST", "/v1/daemon/stop", {})
    except NoDaemon:
        if process is None:
            return "no daemon was running"
        if _gone_within(client, process, ASKED_S):
            return "the daemon has ended, as it was told before; runs go on without it"
        return _end_by_pid(*process)
    except DaemonSilent as exc:
        if process is None:
            raise DaemonError(
                f"What listens at {client.socket_path} does not answer, and is no daemon of "
                "this inventory.",
                remedy=f"End whoever listens there (`ss -xlp`), or remove {client.socket_path}.",
            ) from exc
        return _end_by_pid(*process)
    note("the daemon is ending")
    if _gone_within(client, process, ASKED_S):
        return "the daemon has ended; runs go on without it"
    if process is None:
        raise DaemonError(
            f"The daemon has not ended after {ASKED_S:.0f} s.",
            remedy="`orch daemon status` shows its process.",
        )
    return _end_by_pid(*process)


def _gone_within(client: Client, process: tuple[int, int] | None, within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if process is not None:
            if not procfs.lives(*process):
                return True
        elif _is_deaf(client):
            return True
        time.sleep(_POLL_S)
    return False


def _is_deaf(client: Client) -> bool:
    try:
        client.daemon_view()
    except NoDaemon:
        return True
    except DaemonError:
        pass  # it closed the call as it ended
    return False


def _end_by_pid(pid: int, start: int) -> str:
    """SIGTERM, SIGCONT for one that was stopped, and SIGKILL where that is not enough."""
    for numbers, within_s in (
        ((signal.SIGTERM, signal.SIGCONT), TERMINATED_S),
        ((signal.SIGKILL,), KILLED_S),
    ):
        for number in numbers:
            if procfs.lives(pid, start):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            if not procfs.lives(pid, start):
                how = "killed" if numbers[0] == signal.SIGKILL else "ended"
                return f"the daemon (process {pid}) did not answer and was {how}; runs go on"
            time.sleep(_POLL_S)
    raise DaemonError(
        f"The daemon's process {pid} is still there after SIGKILL.",
        remedy=f"It waits for a device or a disk: `cat /proc/{pid}/wchan`.",
    )
