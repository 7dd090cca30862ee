"""What SQLite and PostgreSQL do differently, so that every query is written once.

Owns column types and the INSERT that knows ON CONFLICT. Must not: know a table.
"""

import json
from typing import Any, cast

from sqlalchemy import JSON, Connection, Dialect, Table, Text
from sqlalchemy.dialects import sqlite
from sqlalchemy.types import TypeDecorator, TypeEngine

POSTGRES = "postgresql"


def insert(connection: Connection, table: Table) -> sqlite.Insert:
    """INSERT with `on_conflict_do_nothing` and `on_conflict_do_update`, in either dialect."""
    if connection.dialect.name == POSTGRES:
        from sqlalchemy.dialects import postgresql  # 2 MB, that few need

        # Both have the same methods, and no class in common that has them.
        return cast(sqlite.Insert, postgresql.insert(table))
    return sqlite.insert(table)


class _JsonText(TypeDecorator[Any]):
    """JSON as SQLite keeps it: PostgreSQL's own types know neither NaN nor the character 0."""

    impl: TypeEngine[Any] | type[TypeEngine[Any]] = Text
    cache_ok: bool | None = True

    def __init__(self, *, none_as_null: bool = False) -> None:
        super().__init__()
        self.none_as_null = none_as_null

    def process_bind_param(self, value: Any, _dialect: Dialect) -> str | None:
        if value is None and self.none_as_null:
            return None
        return json.dumps(value)

    def process_result_value(self, value: str | None, _dialect: Dialect) -> Any:
        return None if value is None else json.loads(value)


class _AnyText(TypeDecorator[str]):
    """Text that may hold the character 0, which PostgreSQL keeps nowhere."""

    impl: TypeEngine[Any] | type[TypeEngine[Any]] = Text
    cache_ok: bool | None = True

    def process_bind_param(self, value: str | None, _dialect: Dialect) -> str | None:
        return None if value is None else value.replace("\0", "\N{REPLACEMENT CHARACTER}")


def json_type(*, none_as_null: bool = False) -> TypeEngine[Any]:
    """A nested value."""
    own = JSON(none_as_null=none_as_null)
    return own.with_variant(_JsonText(none_as_null=none_as_null), POSTGRES)


def text_type() -> TypeEngine[str]:
    """Words of people and programs."""
    return Text().with_variant(_AnyText(), POSTGRES)
