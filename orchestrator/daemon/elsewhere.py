"""Which questions about a run, an incident or a target another daemon has to answer.

What the shared database holds is answered here; bytes, links and what acts are with the daemon
that drives the host.
"""

import socket
from pathlib import Path

from orchestrator.api.forwarding import Elsewhere
from orchestrator.core.errors import NoSuchRun
from orchestrator.daemon.parts import Parts

_ITS_OWN = frozenset(
    {
        *("log", "follow", "search", "metrics", "gpus", "wait", "bundle", "diff"),
        *("stop", "ack", "end-process"),
    }
)


async def elsewhere(parts: Parts, method: str, words: str, what: str) -> Elsewhere | None:
    """The daemon that answers, None where this one does; NotDriven where none can be asked."""
    if not parts.leasing.shared or what not in _ITS_OWN:
        return None
    key = await _key(parts, words, what)
    if key is None or parts.leasing.drives(key):
        return None
    lease, refusal = parts.leasing.of(key), parts.leasing.elsewhere(key)
    if lease is None or lease.left_s < 0:
        if method == "GET":
            return None  # nobody drives it just now: what is here may still be read
        raise refusal
    here = lease.driver["machine"] == socket.gethostname()
    if not here or not Path(lease.driver["socket"]).exists():
        raise refusal
    return Elsewhere(socket=str(lease.driver["socket"]), refusal=refusal)


async def _key(parts: Parts, words: str, what: str) -> str | None:
    """The host in question; None where nothing of that name is known, which is said later."""
    try:
        if what == "end-process":
            return parts.leasing.key_of(words)
        if what == "ack":
            words = (await parts.store.incidents.find(words)).run
        return (await parts.store.runs.find(words)).host
    except NoSuchRun:
        return None
