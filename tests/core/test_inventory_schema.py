"""The JSON Schema for editors is fresh, and agrees with what the code refuses."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ruamel.yaml import YAML

from orchestrator.core.inventory.shape import json_schema

ROOT = Path(__file__).parents[2]
SCHEMA_FILE = ROOT / "inventory.schema.json"


def schema_text() -> str:
    """The file's content, as `make schema` writes it."""
    return json.dumps(json_schema(), indent=2) + "\n"


def valid(document: Any) -> bool:
    """Whether an editor would accept the document."""
    checker = jsonschema.Draft202012Validator(json_schema())
    return bool(checker.is_valid(document))


def test_schema_file_is_fresh() -> None:
    """inventory.schema.json is generated; `make schema` renews it."""
    assert SCHEMA_FILE.read_text(encoding="utf-8") == schema_text()


def test_schema_is_a_schema_and_accepts_the_example() -> None:
    """The shipped inventory is valid under its own schema."""
    jsonschema.Draft202012Validator.check_schema(json_schema())
    example = YAML(typ="safe", pure=True).load((ROOT / "inventory.yaml").read_text("utf-8"))
    assert valid(example)


@pytest.mark.parametrize(
    "part",
    [
        {"hosts": {"a": {"hostnme": "x"}}},
        {"hosts": {"a": {"port": 65536}}},
        {"targets": {"a": {"runtime": "pct"}}},
        {"jobs": {"a": {"target": "b", "workdir": "/srv"}}},
        {"jobs": {"a": {"target": "b", "workdir": "/srv", "command": "x", "session": "a.b"}}},
        {"jobs": {"a": {"target": "b", "workdir": "/srv", "command": "x", "secrets": ["a-b"]}}},
        {"version": 2},
    ],
)
def test_editor_marks_what_orch_refuses(part: dict[str, Any]) -> None:
    """Unknown keys, wrong values and missing keys are red in an editor too."""
    assert not valid({"version": 1, **part})
