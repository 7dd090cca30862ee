"""A value that the shape refused -> one sentence with the nearest valid key or value."""

import types
import typing
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from orchestrator.core.inventory.document import Location
from orchestrator.core.inventory.nearest import nearest
from orchestrator.core.inventory.shape import InventoryShape
from orchestrator.core.inventory.values import shown

_KINDS = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "bool_type": "true or false",
    "dict_type": "a mapping (key: value)",
    "model_type": "a mapping (key: value)",
    "list_type": "a list",
}


def key_path(location: Location) -> str:
    """`jobs.dflash.watch.expect[0]`; the whole file is `inventory`."""
    path = ""
    for part in location:
        path += f"[{part}]" if isinstance(part, int) else f".{part}"
    return path.removeprefix(".") or "inventory"


def shape_problems(tree: object, context: str | None = None) -> list[tuple[Location, str]]:
    """Location and sentence of everything in the tree that has not the shape of an inventory.

    `context` may be TAKEN_BEFORE.
    """
    try:
        InventoryShape.model_validate(tree, context=context)
    except ValidationError as error:
        details = error.errors(include_url=False)
        return [_problem(detail) for detail in details]
    return []


def _problem(detail: ErrorDetails) -> tuple[Location, str]:
    location: Location = tuple(part for part in detail["loc"] if part != "[key]")
    return location, _sentence(detail, location)


def _sentence(detail: ErrorDetails, location: Location) -> str:
    kind, value, context = detail["type"], detail["input"], detail.get("ctx", {})
    if kind == "said":
        return str(context["sentence"])
    if kind == "missing":
        return "is required"
    if kind == "extra_forbidden":
        return "is not a key here" + nearest(str(location[-1]), _keys_at(location[:-1]))
    if kind == "literal_error":
        known = [word.strip("'") for word in _words(str(context["expected"]))]
        return f"{shown(value)} is not valid" + nearest(str(value), known)
    if kind == "too_short":
        return "must name at least one"
    if kind in {"greater_than_equal", "less_than_equal"}:
        return _range_sentence(value, location)
    if kind in _KINDS:
        return f"must be {_KINDS[kind]}, not {shown(value)}"
    return f"{detail['msg'][:1].lower()}{detail['msg'][1:]}"


def _words(expected: str) -> list[str]:
    return expected.replace(" or ", ", ").split(", ")


def _range_sentence(value: object, location: Location) -> str:
    if location[-1] == "port":
        return f"must be a port from 1 to 65535, not {shown(value)}"
    return f"must be 1 or more, not {shown(value)}"


def _keys_at(location: Location) -> list[str]:
    """Keys that are valid in the mapping at this location."""
    kind: Any = InventoryShape
    for part in location:
        kind = _step(kind, part)
    model = _model(kind)
    return list(model.model_fields) if model else []


def _step(kind: Any, part: str | int) -> Any:
    model = _model(kind)
    if model is not None:
        return model.model_fields[str(part)].annotation
    return typing.get_args(kind)[-1]


def _model(kind: Any) -> type[BaseModel] | None:
    if typing.get_origin(kind) is typing.Annotated:
        kind = typing.get_args(kind)[0]
    if typing.get_origin(kind) in {typing.Union, types.UnionType}:
        kind = next(arg for arg in typing.get_args(kind) if arg is not type(None))
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None
