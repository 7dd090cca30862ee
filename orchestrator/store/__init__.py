"""What a daemon remembers; `Store` in store.py is the whole surface."""

from orchestrator.store.store import Applied, Store

__all__ = ["Applied", "Store"]
