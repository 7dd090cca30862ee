"""Findings stand in the verdict and the incidents; their own table never had a row."""

from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Drop the table of findings."""
    op.drop_table("findings")
