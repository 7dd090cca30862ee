"""What a job finds around it once its release is deployed."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Give each deploy a place for what was found after it."""
    kind = sa.JSON().with_variant(sa.Text(), "postgresql")
    op.add_column("releases", sa.Column("environment", kind, nullable=True))
