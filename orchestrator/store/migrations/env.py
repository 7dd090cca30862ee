"""Alembic's entry: runs the revisions on the connection that orchestrator.store.schema hands in."""

from alembic import context

context.configure(connection=context.config.attributes["connection"], transactional_ddl=True)
with context.begin_transaction():
    context.run_migrations()
