"""The records of runs that the plain shell finds on a target without Python, as a probe has them.

Owns the script and the reading of what it prints; the records are attempt.sh's.
"""

import json
from collections.abc import Iterable
from typing import Any

KNOWN = """
root=$1; shift
for name do
  for dir in "$root/$name"/attempt-*; do
    for kind in attempt exit; do
      file=$dir/$kind.json
      if [ ! -f "$file" ] || [ -L "$file" ]; then continue; fi
      printf '%s %s %s %s\\n' "$name" "${dir##*-}" "$kind" "$(head -c 65536 "$file" | tr '\\n' ' ')"
    done
  done
done
exit 0
"""
"""Arguments: the folder of runs, names of runs' folders. Of a link that a program put in the place
of a record nothing is read."""


def known(names: Iterable[str], printed: bytes) -> dict[str, Any]:
    """The value of `runs_known`."""
    found: dict[str, dict[int, dict[str, Any]]] = {name: {} for name in names}
    for line in printed.decode("utf-8", "replace").splitlines():
        name, number, kind, text = (*line.split(" ", 3), "", "", "")[:4]
        if name not in found or not (number.isascii() and number.isdecimal()):
            continue
        record = _record(text)
        if record is not None:
            attempts = found[name]
            attempts.setdefault(int(number), {"attempt": None, "exit": None})[kind] = record
    runs = []
    for name, attempts in found.items():
        told = [{"number": n, **one} for n, one in sorted(attempts.items()) if one["attempt"]]
        if told:
            runs.append({"name": name, "attempts": told})
    return {"runs": runs}


def _record(text: str) -> dict[str, Any] | None:
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None
