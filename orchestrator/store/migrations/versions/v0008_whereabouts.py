"""Where each run is, whatever its target is edited to; older runs have none."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Give each run a place for its target as it was where the run was launched."""
    kind = sa.JSON().with_variant(sa.Text(), "postgresql")
    op.add_column("runs", sa.Column("whereabouts", kind, nullable=True))
