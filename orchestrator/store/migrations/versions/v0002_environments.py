"""What each attempt found around it."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_JSON = sa.JSON().with_variant(sa.Text(), "postgresql")


def upgrade() -> None:
    """Make the table of environments."""
    op.create_table(
        "environments",
        sa.Column("run", sa.String(), nullable=False),
        sa.Column("attempt", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("moment", sa.String(), nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("fingerprint", _JSON, nullable=False),
        sa.Column("job", _JSON, nullable=False),
        sa.PrimaryKeyConstraint("run", "attempt", "moment", name=op.f("pk_environments")),
    )
