"""A verdict from the log and the exit record, with what the kernel adds to it; pure.

The kernel names no other cause than the verdict has, but for a bare signal that nothing explains.
"""

from collections.abc import Sequence
from dataclasses import replace

from orchestrator.core.findings import Certainty, Verdict
from orchestrator.core.parse.kernel_log import KernelEvent, KernelEventKind

MOST_LINES = 3
MOST_EVIDENCE = 10
_EXPLAIN = frozenset({KernelEventKind.SEGFAULT, KernelEventKind.XID, KernelEventKind.BUS_LOST})


def with_kernel(verdict: Verdict, events: Sequence[KernelEvent]) -> Verdict:
    """The verdict with the newest kernel events as its last evidence; an OOM kill it has itself."""
    told = [one for one in events if one.kind is not KernelEventKind.OOM_KILL][-MOST_LINES:]
    if not verdict.crash or not told:
        return verdict
    lines = [f"kernel: {one.text}"[:300] for one in told]
    evidence = (*verdict.evidence[: MOST_EVIDENCE - len(lines)], *lines)
    found = replace(verdict, evidence=evidence)
    explained = any(one.kind in _EXPLAIN for one in told)
    if verdict.certainty is Certainty.GUESS and explained:
        return replace(
            found,
            certainty=Certainty.LIKELY,
            certainty_reason="nothing was printed; the kernel tells of the fault",
        )
    return found
