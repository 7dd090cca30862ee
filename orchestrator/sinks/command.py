"""Alerts on the standard input of a command of the user's.

The command gets the Alertmanager body, and ORCH_ALERT_ID to tell a repetition. Must not: use a
shell, or hand on the daemon's secrets.
"""

import asyncio
import asyncio.subprocess

from orchestrator.core.model import SinkSpec
from orchestrator.sinks import bodies
from orchestrator.sinks.base import Lookup, Message, Result, refused, taken

DEADLINE_S = 30.0

_PASSED = ("PATH", "HOME", "LANG", "DISPLAY", "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR")


class CommandSink:
    """An argv that exits 0 once it has the alert."""

    type = "command"

    def __init__(self, spec: SinkSpec, *, deadline_s: float = DEADLINE_S) -> None:
        self.name = spec.name
        self._argv = spec.command
        self._deadline_s = deadline_s

    def wants(self) -> tuple[str, ...]:
        """Nothing."""
        return ()

    async def send(self, message: Message, lookup: Lookup) -> Result:
        """Run it; refused where it does not end with 0 in time."""
        body = bodies.encoded(bodies.alertmanager(message, self.name)).encode()
        environment = {name: value for name in _PASSED if (value := lookup(name))}
        try:
            child = await asyncio.create_subprocess_exec(
                *self._argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                env={**environment, "ORCH_ALERT_ID": message.id},
            )
        except OSError as exc:
            return refused(f"{self._argv[0]} cannot be run: {exc.strerror}")
        try:
            async with asyncio.timeout(self._deadline_s):
                await child.communicate(body)
        except TimeoutError:
            return refused(f"{self._argv[0]} did not end within {self._deadline_s:g} s")
        finally:
            if child.returncode is None:
                child.kill()
                await child.wait()
        if child.returncode:
            return refused(f"{self._argv[0]} ended with {child.returncode}")
        return taken(f"{self._argv[0]} ended with 0")

    async def close(self) -> None:
        """Nothing is kept open."""
