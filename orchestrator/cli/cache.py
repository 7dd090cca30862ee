"""cache ls, save, restore, clear: the kernels that a job has compiled, as something to keep."""

import argparse
from collections.abc import Iterator, Mapping
from typing import Any

from orchestrator.cli import output
from orchestrator.cli.reach import connect
from orchestrator.core.errors import TargetError

WITHIN_S = 1800.0
_SHOWN = {"torch": "torch", "triton": "triton", "driver": "driver", "gpu": "", "code": "release"}

Said = Mapping[str, Any]


def ls(options: argparse.Namespace) -> int:
    """Show what the caches hold, and what is kept of them."""
    said = connect(options).get("/v1/cache", {"job": options.job}, timeout_s=WITHIN_S)
    return _show(options, said, _held_lines)


def save(options: argparse.Namespace) -> int:
    """Keep a copy of the caches, under what they were made with."""
    return _do(options, "save", {}, _saved_lines)


def restore(options: argparse.Namespace) -> int:
    """Bring back a kept copy: the named one, or the newest that fits."""
    body = {"name": options.name, "force": options.force}
    return _do(options, "restore", body, _restored_lines)


def clear(options: argparse.Namespace) -> int:
    """Empty the caches; what was in them is kept."""
    return _do(options, "clear", {"force": options.force}, _cleared_lines)


def cost(seconds: float | None) -> str:
    """What an empty cache costs, as the end of a sentence."""
    last = f"; last time it took {output.duration(seconds)}" if seconds is not None else ""
    return f"the first steps of the next run compile{last}"


def _do(options: argparse.Namespace, what: str, body: dict[str, Any], lines: Any) -> int:
    path, body = f"/v1/cache/{what}", {"job": options.job, **body}
    return _show(options, connect(options).call("POST", path, body, timeout_s=WITHIN_S), lines)


def _show(options: argparse.Namespace, said: Said, lines: Any) -> int:
    if options.json:
        output.print_json(said)
    else:
        for one in said["targets"]:
            where = f"{one['job']} on {one['target']}"
            output.say(*([f"{where}: {one['error']}"] if one["error"] else lines(where, one)))
    return TargetError.exit_code if any(one["error"] for one in said["targets"]) else 0


def _held_lines(where: str, one: Said) -> Iterator[str]:
    held = [part for part in one["now"] if part["files"]]
    total = output.size(sum(part["bytes"] for part in held))
    yield f"{where}: {total} compiled; a run now would compile with {_made_with(one['made_with'])}"
    if not held:
        yield f"  nothing is compiled: {cost(one['cold_start_s'])}"
    yield from (
        f"  {part['kind']:<11}{output.size(part['bytes']):>10}  {part['path']}" for part in held
    )
    if not one["saved"]:
        yield "  nothing is kept; `orch cache save` keeps a copy"
        return
    moment = output.now()
    heads = ("KEPT", "SIZE", "WHEN", "", "MADE WITH")
    rows = [
        (
            kept["name"],
            output.size(kept["bytes"]),
            output.age(kept["at"], moment),
            _fit(kept, one["fits"]),
            _made_with(kept["made_with"]),
        )
        for kept in one["saved"]
    ]
    yield from (f"  {line}" for line in output.table(heads, rows))


def _fit(kept: Said, fits: str | None) -> str:
    if kept["name"] == fits:
        return "fits" if not kept["differs"] else "fits, for other code"
    if kept["how"] == "cleared":
        return "put aside"
    return f"other {', '.join(kept['differs'])}" if kept["differs"] else "fits"


def _made_with(making: Said) -> str:
    parts = (f"{word} {making[key]}".strip() for key, word in _SHOWN.items() if making[key])
    return ", ".join(parts) or "nothing that is known"


def _kept_line(kept: Said) -> str:
    count = f"{kept['files']} file{'' if kept['files'] == 1 else 's'}"
    return f"{output.size(kept['bytes'])} in {count} kept as {kept['name']}"


def _dropped(one: Said) -> Iterator[str]:
    yield from (f"  {name} went: the newest three stay" for name in one["dropped"])


def _saved_lines(where: str, one: Said) -> Iterator[str]:
    yield f"{where}: {_kept_line(one['kept'])}"
    yield from _dropped(one)


def _cleared_lines(where: str, one: Said) -> Iterator[str]:
    yield f"{where}: emptied, {cost(one['cold_start_s'])}"
    name = one["kept"]["name"]
    yield f"  {_kept_line(one['kept'])}; `orch cache restore {one['job']} {name}` brings it back"
    yield from _dropped(one)


def _restored_lines(where: str, one: Said) -> Iterator[str]:
    stood = f"; {one['there']} were there" if one["there"] else ""
    size, count = output.size(one["bytes"]), one["files"]
    yield f"{where}: {size} in {count} file{'' if count == 1 else 's'} brought back{stood}"
    for part in one["restored"]["differs"]:
        was = one["restored"]["made_with"][part] or "none"
        yield f"  warning: it was made with another {part} ({was}); what does not fit is not used"
