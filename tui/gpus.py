"""GPUs and the targets they are in, as rows and lines: how busy, how full, held by what.

Pure. Owns the words `busy`, `idle`, `wasted`, and what counts as left over.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from orchestrator.api.messages import TargetView
from orchestrator.core.parse.shared_gpus import shared_words, shown_above
from tui import text
from tui.cells import LINKS, Cell, Column, Row
from tui.fleet import LIVE, Fleet, Sight

GIB = 1024**3
IDLE_PERCENT = 5.0
HELD_BYTES = 512 * 1024 * 1024
"""A driver's own few hundred megabytes on an idle GPU are no waste."""

WORD_KINDS = {"busy": "good", "wasted": "warn", "idle": "muted", "unknown": "muted"}

TARGET_COLUMNS = (
    Column("target", "TARGET", 20, 0),
    Column("link", "LINK", 13, 0),
    Column("seen", "SEEN", 5, 1, right=True),
    Column("use", "GPU USE", 16, 1),
    Column("memory", "MEMORY", 16, 1),
    Column("held", "HELD", 23, 3),
    Column("where", "WHERE", 24, 4),
    Column("note", "", 24, 2),
)


def share(gpu: Mapping[str, Any]) -> float | None:
    """Share of a GPU's memory that is in use."""
    used, total = gpu.get("memory_used_bytes"), gpu.get("memory_total_bytes")
    return used / total if used is not None and total else None


def use(gpu: Mapping[str, Any]) -> float | None:
    """Share of the time in which a GPU computed."""
    percent = gpu.get("utilization_percent")
    return percent / 100 if percent is not None else None


def percent_text(percent: float | None) -> str:
    """`97%`, or `?`."""
    return f"{percent:.0f}%" if percent is not None else "?"


def memory_text(gpu: Mapping[str, Any]) -> str:
    """`61.5/80 GiB`."""
    used, total = gpu.get("memory_used_bytes"), gpu.get("memory_total_bytes")
    if used is None or total is None:
        return text.size(used)
    return f"{used / GIB:.1f}/{total / GIB:.0f} GiB"


def use_block(gpu: Mapping[str, Any]) -> str:
    """A GPU's use as one character."""
    return text.block(use(gpu))


def gpu_word(gpu: Mapping[str, Any]) -> str:
    """`busy`, `idle`, `wasted` (its memory is held and it computes nothing) or `unknown`."""
    percent, used = gpu.get("utilization_percent"), gpu.get("memory_used_bytes")
    if percent is None:
        return "unknown"
    if percent >= IDLE_PERCENT:
        return "busy"
    return "wasted" if (used or 0) > HELD_BYTES else "idle"


def target_rows(sight: Sight) -> list[Row]:
    """The targets' rows, in the order of the inventory."""
    if sight.fleet is None:
        return []
    return [
        Row(target["name"], _target_cells(target, sight)) for target in sight.fleet.targets.values()
    ]


def _target_cells(target: TargetView, sight: Sight) -> dict[str, Cell]:
    shape, kind = LINKS.get(target["link"], ("?", "plain"))
    gpus = target["gpus"]
    used = sum(gpu.get("memory_used_bytes") or 0 for gpu in gpus)
    total = sum(gpu.get("memory_total_bytes") or 0 for gpu in gpus)
    old = target["link"] != "connected"
    seen = sight.now - target["seen_at"] if target["seen_at"] is not None else None
    note = text.harmless(target["error"] or "")
    if not note and target["watched"] == "shell":
        note = "plain shell: no Python there; tails only, every few seconds"
    return {
        "target": Cell(text.harmless(target["name"]), "strong"),
        "link": Cell(f"{shape} {target['link']}", kind),
        # The daemon tells not of each sign of life, but at once of a link that is lost.
        "seen": Cell(
            text.age(seen) if old or not sight.connected else "now", "warn" if old else "muted"
        ),
        "use": Cell("".join(map(use_block, gpus)) or "none", "muted" if old else "busy"),
        "memory": Cell("".join(text.block(share(gpu)) for gpu in gpus), "muted" if old else "busy"),
        "held": Cell(f"{text.size(used)} / {text.size(total)}" if gpus else "", "muted"),
        "where": Cell(where_of(target), "muted"),
        "note": Cell(note, "bad" if target["error"] else "warn"),
    }


def where_of(target: TargetView) -> str:
    """`pve1, pct 200`, or the host alone."""
    inside = f", {target['runtime']} {target['container']}" if target["container"] else ""
    return text.harmless(f"{target['host']}{inside}")


def gpu_summary(targets: Iterable[TargetView]) -> list[Cell]:
    """`8 GPUs`, `3 busy`, ...; GPUs of an unreachable target count as unknown."""
    counts = dict.fromkeys(("busy", "idle", "wasted", "unknown"), 0)
    # Containers of one host show the same GPUs: a GPU is counted once, by who still sees it.
    words: dict[object, str] = {}
    for target in sorted(targets, key=lambda one: one["link"] != "unreachable"):
        for gpu in target["gpus"]:
            word = "unknown" if target["link"] == "unreachable" else gpu_word(gpu)
            words[gpu.get("uuid") or (target["name"], gpu["index"])] = word
    for word in words.values():
        counts[word] += 1
    whole = sum(counts.values())
    if not whole:
        return [Cell("no GPUs seen", "muted")]
    kinds = {"busy": "good", "idle": "plain", "wasted": "warn", "unknown": "muted"}
    told = [Cell(f"{count} {word}", kinds[word]) for word, count in counts.items() if count]
    return [Cell(count(whole, "GPU")), *told]


def count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def gpu_line(gpu: Mapping[str, Any]) -> list[Cell]:
    """One GPU in one line, what matters most first."""
    watts, heat = gpu.get("power_w"), gpu.get("temperature_c")
    word = gpu_word(gpu)
    kind = WORD_KINDS[word]
    return [
        Cell(f"{gpu['index']:>2} {text.bar(use(gpu), 8)}", "busy" if word == "busy" else kind),
        Cell(f"{percent_text(gpu.get('utilization_percent')):>4}"),
        Cell(text.bar(share(gpu), 6), "busy" if word == "busy" else kind),
        Cell(f"{memory_text(gpu):>11}"),
        Cell(word if word != "busy" else "", kind),
        Cell(f"{watts:.0f} W" if watts is not None else "", "muted"),
        Cell(f"{heat:.0f} C" if heat is not None else "", "muted"),
    ]


def gpu_brief(gpus: Sequence[Mapping[str, Any]]) -> list[Cell]:
    """All GPUs in two lines: one block a GPU for its use, one for its memory."""
    used = sum(gpu.get("memory_used_bytes") or 0 for gpu in gpus)
    total = sum(gpu.get("memory_total_bytes") or 0 for gpu in gpus)
    known = [percent for gpu in gpus if (percent := gpu.get("utilization_percent")) is not None]
    mean = f"{sum(known) / len(known):.0f}%" if known else "?"
    words = {word: sum(1 for gpu in gpus if gpu_word(gpu) == word) for word in ("busy", "wasted")}
    told = ", ".join(f"{count} {word}" for word, count in words.items() if count) or "idle"
    name = count(len(gpus), "GPU")
    blocks = "".join(text.block(share(gpu)) for gpu in gpus)
    return [
        Cell(f"{name}  use {''.join(map(use_block, gpus))} {mean}, {told}"),
        Cell(f"{'':{len(name)}}  mem {blocks} {text.size(used)} of {text.size(total)}"),
    ]


GPU_COLUMNS = (
    Column("gpu", "GPU", 4, 0),
    Column("name", "NAME", 22, 5),
    Column("use", "USE", 15, 1),
    Column("memory", "MEMORY", 27, 1),
    Column("power", "POWER", 6, 4, right=True),
    Column("heat", "TEMP", 5, 4, right=True),
    Column("word", "STATE", 7, 2),
    Column("pid", "PID", 8, 3, right=True),
    Column("held", "HELD", 10, 3, right=True),
    Column("owner", "BY", 40, 0),
)


def gpu_rows(sight: Sight) -> list[Row]:
    """A heading for each target that has GPUs, and a row for each GPU and program on it."""
    if sight.fleet is None:
        return []
    found: list[Row] = []
    above = shown_above(sight.fleet.targets.values())
    for target in sight.fleet.targets.values():
        if not target["gpus"]:
            continue
        seen = sight.now - target["gpus_at"] if target["gpus_at"] is not None else None
        shape, _ = LINKS.get(target["link"], ("?", "plain"))
        heading = f"{shape} {text.harmless(target['name'])}  {where_of(target)}"
        heading += f"  seen {text.age(seen)} ago by {target['gpu_source'] or 'nobody'}"
        heading += "".join(f"; {text.harmless(w)}" for w in shared_words(above, target["name"]))
        found.append(Row(f"{target['name']} heading", {"heading": Cell(heading)}, heading=True))
        for gpu in target["gpus"]:
            if (target["name"], int(gpu["index"])) not in above:
                found += _rows_of_gpu(gpu, target["name"], sight.fleet)
    return found


def program_at(fleet: Fleet, row: str) -> tuple[str, int, Mapping[str, Any]] | None:
    """Target, GPU and program of a row of `gpu_rows`, by the row's key; None: there is none."""
    for target in fleet.targets.values():
        for gpu in target["gpus"]:
            for number, program in enumerate(gpu.get("processes") or ()):
                if row == _row_key(target["name"], gpu, number, program):
                    return target["name"], int(gpu["index"]), program
    return None


def _row_key(target: str, gpu: Mapping[str, Any], number: int, program: Mapping[str, Any]) -> str:
    return f"{target} {gpu['index']} {number} {program.get('run') or ''}"


def _rows_of_gpu(gpu: Mapping[str, Any], target: str, fleet: Fleet) -> Iterable[Row]:
    """The GPU with the first program on it, then one row for each further program."""
    percent, watts, heat = (
        gpu.get(key) for key in ("utilization_percent", "power_w", "temperature_c")
    )
    word = gpu_word(gpu)
    kind = WORD_KINDS[word]
    whole = {
        "gpu": Cell(str(gpu["index"]), "strong"),
        "name": Cell(text.harmless(gpu.get("name") or ""), "muted"),
        "use": Cell(f"{text.bar(use(gpu), 10)} {percent_text(percent):>4}"),
        "memory": Cell(f"{text.bar(share(gpu), 10)} {memory_text(gpu):>11}"),
        "power": Cell(f"{watts:.0f} W" if watts is not None else ""),
        "heat": Cell(f"{heat:.0f} C" if heat is not None else ""),
        "word": Cell(word, kind),
    }
    blank = dict.fromkeys(whole, Cell(""))
    programs = gpu.get("processes") or [{}]
    for number, program in enumerate(programs):
        key = _row_key(target, gpu, number, program)
        yield Row(key, {**(blank if number else whole), **_program_cells(program, fleet)})


def _program_cells(program: Mapping[str, Any], fleet: Fleet) -> dict[str, Cell]:
    if not program:
        return {"pid": Cell(""), "held": Cell(""), "owner": Cell("")}
    run = fleet.runs.get(program.get("run") or "")
    command = text.harmless(str(program.get("command") or ""))
    names = [text.harmless(str(program.get("run") or ""))]
    names += [f"container {program['container']}"] if program.get("container") else []
    kind = "plain"
    if run is not None and run["state"] not in LIVE:
        names.append(f"left over: the run is {run['state']}")
        kind = "bad"
    elif run is None:
        names.append("no run of orch")
        kind = "warn"
    return {
        "pid": Cell(str(program.get("pid") or ""), "muted"),
        "held": Cell(text.size(program.get("memory_bytes"))),
        "owner": Cell("  ".join(filter(None, [*names, command])), kind),
    }
