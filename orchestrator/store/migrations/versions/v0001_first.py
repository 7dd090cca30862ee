"""The first schema."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_JSON = sa.JSON().with_variant(sa.Text(), "postgresql")


def upgrade() -> None:
    """Make every table of the first release."""
    _runs()
    _incidents()
    _queues()
    _rest()


_SEQ = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _runs() -> None:
    op.create_table(
        "runs",
        sa.Column("seq", _SEQ, autoincrement=True, nullable=False),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("uid", sa.String(), nullable=False),
        sa.Column("job", sa.String(), nullable=False),
        sa.Column("target", sa.String(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("session", sa.String(), nullable=False),
        sa.Column("directory", sa.String(), nullable=False),
        sa.Column("release", sa.String(), nullable=True),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("started_at", sa.Float(), nullable=True),
        sa.Column("ended_at", sa.Float(), nullable=True),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("signal", sa.Integer(), nullable=True),
        sa.Column("step", sa.BigInteger(), nullable=True),
        sa.Column("loss", sa.Float(), nullable=True),
        sa.Column("phase", sa.String(), nullable=True),
        sa.Column("metrics", _JSON, nullable=False),
        sa.Column("verdict", _JSON, nullable=True),
        sa.Column("incident", sa.String(), nullable=True),
        sa.Column("forced", sa.Boolean(), nullable=False),
        sa.Column("args", _JSON, nullable=False),
        sa.Column("env", _JSON, nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_runs")),
        sa.UniqueConstraint("id", name=op.f("uq_runs_id")),
        sa.UniqueConstraint("job", "number", name=op.f("uq_runs_job_number")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_runs_state"), "runs", ["state"], unique=False)
    op.create_table(
        "counters",
        sa.Column("job", sa.String(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("job", name=op.f("pk_counters")),
    )
    op.create_table(
        "attempts",
        sa.Column("run", sa.String(), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("directory", sa.String(), nullable=False),
        sa.Column("started_at", sa.Float(), nullable=True),
        sa.Column("ended_at", sa.Float(), nullable=True),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("signal", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("run", "number", name=op.f("pk_attempts")),
    )


def _incidents() -> None:
    op.create_table(
        "incidents",
        sa.Column("seq", _SEQ, autoincrement=True, nullable=False),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("job", sa.String(), nullable=False),
        sa.Column("run", sa.String(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("fingerprint", sa.String(), nullable=False),
        sa.Column("family", sa.String(), nullable=True),
        sa.Column("signature", sa.String(), nullable=False),
        sa.Column("severity", sa.String(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("opened_at", sa.Float(), nullable=False),
        sa.Column("updated_at", sa.Float(), nullable=False),
        sa.Column("resolved_at", sa.Float(), nullable=True),
        sa.Column("occurrences", sa.Integer(), nullable=False),
        sa.Column("same_as", sa.String(), nullable=True),
        sa.Column("finding", _JSON, nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_incidents")),
        sa.UniqueConstraint("id", name=op.f("uq_incidents_id")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_incidents_job_family"), "incidents", ["job", "family"], unique=False)
    op.create_index(
        op.f("ix_incidents_job_fingerprint"), "incidents", ["job", "fingerprint"], unique=False
    )
    op.create_index(op.f("ix_incidents_run"), "incidents", ["run"], unique=False)
    op.create_index(op.f("ix_incidents_state"), "incidents", ["state"], unique=False)
    op.create_table(
        "findings",
        sa.Column("seq", _SEQ, autoincrement=True, nullable=False),
        sa.Column("run", sa.String(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("signature", sa.String(), nullable=False),
        sa.Column("fingerprint", sa.String(), nullable=False),
        sa.Column("body", _JSON, nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_findings")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_findings_run"), "findings", ["run"], unique=False)


def _queues() -> None:
    op.create_table(
        "deliveries",
        sa.Column("seq", _SEQ, autoincrement=True, nullable=False),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("incident", sa.String(), nullable=False),
        sa.Column("sink", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("alert", _JSON, nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_at", sa.Float(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("delivered_at", sa.Float(), nullable=True),
        sa.Column("digest", sa.String(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_deliveries")),
        sa.UniqueConstraint("id", name=op.f("uq_deliveries_id")),
        sqlite_autoincrement=True,
    )
    op.create_index(
        op.f("ix_deliveries_incident_sink"), "deliveries", ["incident", "sink"], unique=False
    )
    op.create_index(
        op.f("ix_deliveries_state_sink_next_at_seq"),
        "deliveries",
        ["state", "sink", "next_at", "seq"],
        unique=False,
    )
    op.create_table(
        "actions",
        sa.Column("seq", _SEQ, autoincrement=True, nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("run", sa.String(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("at", sa.Float(), nullable=True),
        sa.Column("grace_s", sa.Float(), nullable=True),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("done_at", sa.Float(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_actions")),
        sa.UniqueConstraint("key", name=op.f("uq_actions_key")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_actions_run"), "actions", ["run"], unique=False)
    op.create_index(op.f("ix_actions_state"), "actions", ["state"], unique=False)
    op.create_table(
        "silences",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("match", _JSON, nullable=False),
        sa.Column("until", sa.Float(), nullable=True),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_silences")),
    )


def _rest() -> None:
    op.create_table(
        "releases",
        sa.Column("seq", _SEQ, autoincrement=True, nullable=False),
        sa.Column("job", sa.String(), nullable=False),
        sa.Column("target", sa.String(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("path", sa.String(), nullable=False),
        sa.Column("files", sa.Integer(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("provenance", _JSON, nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_releases")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_releases_job_target"), "releases", ["job", "target"], unique=False)
    op.create_table(
        "journal",
        sa.Column("seq", _SEQ, autoincrement=True, nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("run", sa.String(), nullable=True),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("body", _JSON, nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_journal")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "kv",
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("value", _JSON, nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_kv")),
    )
