"""What the daemon forgets of the past: logs, rows, and the evidence of runs whose logs are gone."""

from pathlib import Path

from orchestrator.core.model import Inventory
from orchestrator.store.retention import Kept, Pruned
from orchestrator.store.store import Store


def kept_for(inventory: Inventory) -> Kept:
    """How much of the past is kept."""
    return Kept(sinks=frozenset(sink.name for sink in inventory.alerts.sinks))


async def forget_old(store: Store, inventory: Inventory, evidence: Path) -> Pruned:
    """Forget what is older or larger than is to be kept; live runs keep everything."""
    pruned = await store.prune(kept_for(inventory))
    for run in pruned.logs:
        for file in evidence.glob(f"{run}.*"):
            file.unlink(missing_ok=True)
    return pruned
