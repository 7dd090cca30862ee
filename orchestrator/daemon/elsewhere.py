"""Which questions about a run, an incident or a target another daemon has to answer.

What the shared database holds is answered here; bytes, links and what acts are with the daemon
that drives the host.
"""

from functools import partial

from orchestrator.api.forwarding import Elsewhere
from orchestrator.core.errors import NoSuchRun
from orchestrator.daemon.parts import Parts
from orchestrator.daemon.passing import PASSED

READS = PASSED - {"stop", "ack", "end-process", "give-up", "prune"}


async def elsewhere(parts: Parts, words: str, what: str) -> Elsewhere | None:
    """The daemon that answers, None where this one does."""
    if not parts.leasing.shared or what not in PASSED:
        return None
    found = await _meant(parts, words, what)
    if found is None or parts.leasing.drives(found[0]):
        return None
    key, name = found
    lease = parts.leasing.of(key)
    if what in READS and (lease is None or lease.left_s < 0):
        return None  # nobody drives it just now: what is here may still be read
    return Elsewhere(words=name, ask=partial(parts.passing.ask, key))


async def _meant(parts: Parts, words: str, what: str) -> tuple[str, str] | None:
    """The host in question, and the words in full; None where nothing of that name is known."""
    try:
        if what in {"end-process", "prune"}:
            return parts.leasing.key_of(words), words
        if what == "ack":
            incident = await parts.store.incidents.find(words)
            return (await parts.store.runs.get(incident.run)).host, incident.id
        if what == "give-up":
            return None
        run = await parts.store.runs.find(words)
    except NoSuchRun:
        return None
    return run.host, run.id
