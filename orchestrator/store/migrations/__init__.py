"""Alembic revisions, run by orchestrator.store.schema when a store is opened."""
