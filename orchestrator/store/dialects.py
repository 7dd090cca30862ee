"""What SQLite and PostgreSQL do differently, so that every query is written once.

Owns column types, the INSERT that knows ON CONFLICT, what text may hold. Must not: know a table.
"""

import json
from typing import Any, cast

from sqlalchemy import JSON, Connection, Dialect, Engine, Table, Text, event
from sqlalchemy.dialects import sqlite
from sqlalchemy.types import TypeDecorator, TypeEngine

POSTGRES = "postgresql"
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


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


def json_type(*, none_as_null: bool = False) -> TypeEngine[Any]:
    """A nested value."""
    own = JSON(none_as_null=none_as_null)
    return own.with_variant(_JsonText(none_as_null=none_as_null), POSTGRES)


def keep_text_storable(engine: Engine) -> None:
    """Every text that goes to the database can be kept there, whoever wrote it.

    PostgreSQL knows no character 0, and neither database half a surrogate pair: one such character
    in a log line would fail the whole transaction. U+FFFD stands in its place.
    """
    forbidden = "\0" if engine.dialect.name == POSTGRES else ""

    def storable(value: object) -> object:
        if not isinstance(value, str) or (value.isascii() and "\0" not in value):
            return value
        whole = value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return whole.replace(forbidden, _REPLACEMENT) if forbidden else whole

    def row(values: Any) -> Any:
        if isinstance(values, dict):
            return {name: storable(value) for name, value in values.items()}
        return tuple(map(storable, values))

    def prepare(*said: Any) -> tuple[str, Any]:
        _connection, _cursor, statement, parameters, _context, many = said
        return statement, [row(one) for one in parameters] if many else row(parameters)

    event.listen(engine, "before_cursor_execute", prepare, retval=True)
