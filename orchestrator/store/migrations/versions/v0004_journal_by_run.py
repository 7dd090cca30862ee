"""A run's timeline reads the journal by run."""

from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Make the index."""
    op.create_index(op.f("ix_journal_run"), "journal", ["run"], unique=False)
