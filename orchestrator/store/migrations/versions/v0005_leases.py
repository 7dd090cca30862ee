"""Several daemons share one fleet: who drives which host, and which run and alert belong to it."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

_JSON = sa.JSON().with_variant(sa.Text(), "postgresql")


def upgrade() -> None:
    """Make the table of leases, and name the host of runs and deliveries."""
    op.add_column("runs", sa.Column("host", sa.String(), nullable=False, server_default=""))
    op.add_column("deliveries", sa.Column("host", sa.String(), nullable=False, server_default=""))
    op.create_table(
        "leases",
        sa.Column("host", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("token", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.Float(), nullable=False),
        sa.Column("driver", _JSON, nullable=False),
        sa.Column("targets", _JSON, nullable=False),
        sa.PrimaryKeyConstraint("host", name=op.f("pk_leases")),
    )
