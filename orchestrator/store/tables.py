"""The tables, as SQLAlchemy Core sees them; migrations/ makes them and a test compares the two.

Times are unix seconds, nested values are JSON. Must not: hold queries; each lives by its noun.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

from orchestrator.store.dialects import json_type

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def _seq() -> Column[int]:
    """A number that only grows, also after rows were deleted."""
    return Column(
        "seq", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True
    )


runs = Table(
    "runs",
    metadata,
    _seq(),
    Column("id", String, nullable=False, unique=True),
    Column("uid", String, nullable=False),
    Column("job", String, nullable=False),
    Column("target", String, nullable=False),
    Column("number", Integer, nullable=False),
    Column("state", String, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("session", String, nullable=False),
    Column("directory", String, nullable=False),
    Column("release", String),
    Column("why", Text, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("started_at", Float),
    Column("ended_at", Float),
    Column("exit_code", Integer),
    Column("signal", Integer),
    Column("step", BigInteger),
    Column("loss", Float),
    Column("phase", String),
    Column("metrics", json_type(), nullable=False),
    Column("verdict", json_type(none_as_null=True)),
    Column("incident", String),
    Column("forced", Boolean, nullable=False),
    Column("args", json_type(), nullable=False),
    Column("env", json_type(), nullable=False),
    Column("host", String, nullable=False, server_default=""),
    Column("whereabouts", json_type(none_as_null=True)),
    UniqueConstraint("job", "number"),
    Index(None, "state"),
    sqlite_autoincrement=True,
)

counters = Table(
    "counters",
    metadata,
    Column("job", String, primary_key=True),
    Column("number", Integer, nullable=False),
)

attempts = Table(
    "attempts",
    metadata,
    Column("run", String, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("directory", String, nullable=False),
    Column("started_at", Float),
    Column("ended_at", Float),
    Column("exit_code", Integer),
    Column("signal", Integer),
)

incidents = Table(
    "incidents",
    metadata,
    _seq(),
    Column("id", String, nullable=False, unique=True),
    Column("job", String, nullable=False),
    Column("run", String, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("fingerprint", String, nullable=False),
    Column("family", String),
    Column("signature", String, nullable=False),
    Column("severity", String, nullable=False),
    Column("title", Text, nullable=False),
    Column("state", String, nullable=False),
    Column("opened_at", Float, nullable=False),
    Column("updated_at", Float, nullable=False),
    Column("resolved_at", Float),
    Column("occurrences", Integer, nullable=False),
    Column("same_as", String),
    Column("finding", json_type(), nullable=False),
    Index(None, "run"),
    Index(None, "job", "fingerprint"),
    Index(None, "job", "family"),
    Index(None, "state"),
    sqlite_autoincrement=True,
)

deliveries = Table(
    "deliveries",
    metadata,
    _seq(),
    Column("id", String, nullable=False, unique=True),
    Column("incident", String, nullable=False),
    Column("sink", String, nullable=False),
    Column("status", String, nullable=False),
    Column("alert", json_type(), nullable=False),
    Column("state", String, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("next_at", Float, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("delivered_at", Float),
    Column("digest", String),
    Column("error", Text),
    Column("host", String, nullable=False, server_default=""),
    Index(None, "state", "sink", "next_at", "seq"),
    Index(None, "incident", "sink"),
    sqlite_autoincrement=True,
)

actions = Table(
    "actions",
    metadata,
    _seq(),
    Column("key", String, nullable=False, unique=True),
    Column("run", String, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("kind", String, nullable=False),
    Column("at", Float),
    Column("grace_s", Float),
    Column("reason", String, nullable=False),
    Column("state", String, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("done_at", Float),
    Column("error", Text),
    Index(None, "run"),
    Index(None, "state"),
    sqlite_autoincrement=True,
)

releases = Table(
    "releases",
    metadata,
    _seq(),
    Column("job", String, nullable=False),
    Column("target", String, nullable=False),
    Column("digest", String, nullable=False),
    Column("path", String, nullable=False),
    Column("files", Integer, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("at", Float, nullable=False),
    Column("kind", String, nullable=False),
    Column("why", Text, nullable=False),
    Column("provenance", json_type(), nullable=False),
    Column("environment", json_type(none_as_null=True)),
    Index(None, "job", "target"),
    sqlite_autoincrement=True,
)

environments = Table(
    "environments",
    metadata,
    Column("run", String, primary_key=True),
    Column("attempt", Integer, primary_key=True, autoincrement=False),
    Column("moment", String, primary_key=True),
    Column("at", Float, nullable=False),
    Column("fingerprint", json_type(), nullable=False),
    Column("job", json_type(), nullable=False),
)

journal = Table(
    "journal",
    metadata,
    _seq(),
    Column("at", Float, nullable=False),
    Column("run", String),
    Column("kind", String, nullable=False),
    Column("body", json_type(), nullable=False),
    Index(None, "run"),
    sqlite_autoincrement=True,
)

silences = Table(
    "silences",
    metadata,
    Column("id", String, primary_key=True),
    Column("match", json_type(), nullable=False),
    Column("until", Float),
    Column("why", Text, nullable=False),
    Column("created_at", Float, nullable=False),
)

kv = Table(
    "kv",
    metadata,
    Column("key", String, primary_key=True),
    Column("value", json_type(), nullable=False),
)

leases = Table(
    "leases",
    metadata,
    Column("host", String, primary_key=True),
    Column("owner", String, nullable=False),
    Column("token", BigInteger, nullable=False),
    Column("expires_at", Float, nullable=False),
    Column("driver", json_type(), nullable=False),
    Column("targets", json_type(), nullable=False),
)

requests = Table(
    "requests",
    metadata,
    _seq(),
    Column("id", String, nullable=False, unique=True),
    Column("host", String, nullable=False),
    Column("method", String, nullable=False),
    Column("path", Text, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("by", String, nullable=False),
    Column("state", String, nullable=False),
    Column("taker", String),
    Column("created_at", Float, nullable=False),
    Column("wanted_until", Float, nullable=False),
    Index(None, "state"),
    sqlite_autoincrement=True,
)

request_parts = Table(
    "request_parts",
    metadata,
    Column("request", String, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("content", LargeBinary, nullable=False),
)
