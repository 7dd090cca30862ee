"""What one daemon of a fleet asks of another, and the answer."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

_SEQ = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make the tables of requests and of their answers' parts."""
    op.create_table(
        "requests",
        sa.Column("seq", _SEQ, autoincrement=True, nullable=False),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("host", sa.String(), nullable=False),
        sa.Column("method", sa.String(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("by", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("taker", sa.String(), nullable=True),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("wanted_until", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_requests")),
        sa.UniqueConstraint("id", name=op.f("uq_requests_id")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_requests_state"), "requests", ["state"])
    op.create_table(
        "request_parts",
        sa.Column("request", sa.String(), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("request", "number", name=op.f("pk_request_parts")),
    )
