"""How figures are printed: a table for a person, one JSON document with --json or in a file."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def wants_json() -> bool:
    """Whether --json was said; it is taken out of the words."""
    asked = "--json" in sys.argv
    sys.argv[:] = [word for word in sys.argv if word != "--json"]
    return asked


def keep(name: str | None, found: Mapping[str, Any]) -> None:
    """Write what was found into a file as one JSON document; nothing where no file was named."""
    if name is not None:
        Path(name).write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


def show(rows: Sequence[Mapping[str, Any]], *, as_json: bool) -> None:
    """One column a row, so that runs of several sizes stand beside each other."""
    if as_json:
        print(json.dumps(list(rows)))
        return
    keys = list(dict.fromkeys(key for row in rows for key in row))
    width = max(len(key) for key in keys)
    for key in keys:
        print(key.ljust(width), *(_cell(row.get(key, "")) for row in rows))


def _cell(value: Any) -> str:
    text = " ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text.rjust(16)
