"""One run over several targets: a node on each, which find each other by torchrun's rendezvous.

Owns what the nodes are told (ORCH_NODE_RANK, ORCH_NNODES, ORCH_GROUP) and which runs belong
together. Every node is a run of its own, watched and restarted like any other. It must not tie
their fates: that is the rendezvous' part.
"""

from collections.abc import Mapping

from orchestrator.core.model import Run
from orchestrator.store.store import Store

GROUP, RANK, COUNT = "ORCH_GROUP", "ORCH_NODE_RANK", "ORCH_NNODES"
OURS = frozenset({GROUP, RANK, COUNT})
"""Nobody else sets these for a run: which runs belong together, and stop together, is read here."""


def node_env(group: str, rank: int, count: int) -> dict[str, str]:
    """What a node's program is told; nothing where the run has one target."""
    return {GROUP: group, RANK: str(rank), COUNT: str(count)} if count > 1 else {}


def rank_of(env: Mapping[str, str]) -> int:
    """Which node a run is; 0 too for a run of one target."""
    return int(env[RANK]) if GROUP in env else 0


async def live_nodes(store: Store, run: Run) -> tuple[Run, ...]:
    """The nodes of this run that have not ended, node 0 first; the run alone has no others."""
    group = run.env.get(GROUP)
    if group is None:
        return () if run.state.ended else (run,)
    live = await store.runs.list(job=run.job, live=True)
    nodes = [one for one in live if one.env.get(GROUP) == group]
    return tuple(sorted(nodes, key=lambda one: rank_of(one.env)))
