"""One probe on one target: pushed, started, kept; deploy, launch and observe speak through it.

Read boot.py (the first seconds), probe_channel.py (one life), keeper.py (one after the other),
link.py (what is asked of whichever lives).
"""

from orchestrator.link.boot import NoPython
from orchestrator.link.calls import CallFailed
from orchestrator.link.feeds import Feed, Watch
from orchestrator.link.link import Link
from orchestrator.link.package import ProbePackage, probe_package
from orchestrator.link.probe_channel import ProbeChannel

__all__ = [
    "Link",
    "Watch",
    "Feed",
    "ProbeChannel",
    "CallFailed",
    "NoPython",
    "ProbePackage",
    "probe_package",
]
