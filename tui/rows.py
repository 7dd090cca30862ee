"""What the tables, lines and panels say: the fleet as cells and strings, without Textual.

Pure. A Cell's `kind` is a word that the stylesheet colours; colour is never the only difference.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.api.messages import IncidentView, RunView, TargetView
from tui import text
from tui.fleet import LIVE, Course, Fleet, Sight

KINDS = ("plain", "muted", "good", "busy", "warn", "bad", "strong")
STATES: Mapping[str, tuple[str, str]] = {
    "pending": ("○", "busy"),
    "deploying": ("▲", "busy"),
    "starting": ("◐", "busy"),
    "running": ("●", "good"),
    "backoff": ("↻", "warn"),
    "stopping": ("◑", "warn"),
    "finished": ("✓", "good"),
    "failed": ("✗", "bad"),
    "stopped": ("■", "muted"),
    "lost": ("?", "bad"),
}
LINKS: Mapping[str, tuple[str, str]] = {
    "connected": ("●", "good"),
    "degraded": ("◐", "warn"),
    "unreachable": ("○", "bad"),
}
QUIET_S, SILENT_S = 30.0, 120.0
"""Ages of a live run's output from which it is shown as old, and as too old."""
IDLE_PERCENT = 5.0
HELD_BYTES = 512 * 1024 * 1024
"""A driver's own few hundred megabytes on an idle GPU are no waste."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A text and what kind of thing it says."""

    text: str
    kind: str = "plain"


@dataclass(frozen=True, slots=True)
class Column:
    """A column as wide as what is in it, up to `most`; a low `rank` stays on a narrow terminal."""

    name: str
    title: str
    most: int
    rank: int
    right: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table: its cells by column; a heading has one, and cannot be chosen."""

    key: str
    cells: Mapping[str, Cell]
    heading: bool = False


RUN_COLUMNS = (
    Column("badge", "", 1, 0),
    Column("run", "RUN", 20, 0),
    Column("state", "STATE", 11, 0),
    Column("step", "STEP", 11, 1, right=True),
    Column("loss", "LOSS", 9, 1, right=True),
    Column("trend", "TREND", 16, 6),
    Column("speed", "SPEED", 11, 5, right=True),
    Column("eta", "LEFT", 6, 7, right=True),
    Column("phase", "PHASE", 10, 3),
    Column("output", "OUTPUT", 9, 1, right=True),
    Column("gpus", "GPUS", 16, 2),
    Column("target", "TARGET", 16, 2),
    Column("took", "TOOK", 6, 8, right=True),
    Column("why", "WHY", 24, 4),
)
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
LAST_LEAST = 6
"""Cells that are enough for the beginning of the last column, which is cut rather than left out."""


def columns_for(
    columns: Sequence[Column], rows: Sequence[Row], width: int
) -> tuple[tuple[Column, int], ...]:
    """The columns that fit and their widths, the important ones first; the last takes the rest."""
    left, widths = width, dict[str, int]()
    for column in sorted(columns, key=lambda one: one.rank):
        wide = _natural(column, rows)
        if wide and column is columns[-1] and LAST_LEAST < left < wide + 1:
            wide = left - 1
        if wide and wide + 1 <= left:
            widths[column.name] = wide
            left -= wide + 1
    shown = [(column, widths[column.name]) for column in columns if column.name in widths]
    if shown and shown[-1][0] is columns[-1]:
        shown[-1] = (columns[-1], shown[-1][1] + max(left, 0))
    return tuple(shown)


def _natural(column: Column, rows: Sequence[Row]) -> int:
    """How wide a column wants to be; 0 where it has nothing to say."""
    told = (row.cells[column.name].text for row in rows if not row.heading)
    longest = max((text.width_of(one) for one in told), default=0)
    return min(max(longest, len(column.title)), column.most) if longest or not rows else 0


# --- runs ----------------------------------------------------------------------------------------


def state_cell(run: RunView) -> Cell:
    """Shape and word of a run's state."""
    shape, kind = STATES.get(run["state"], ("?", "plain"))
    return Cell(f"{shape} {run['state']}", kind)


def output_age(run: RunView, now: float) -> Cell:
    """How old the last output is; a live run's ages visibly, an unseen one says so."""
    if run["state"] in LIVE and run["link"] == "unreachable":
        seen = now - run["seen_at"] if run["seen_at"] is not None else None
        return Cell(f"blind {text.age(seen)}", "warn")
    if run["output_at"] is None:
        return Cell(text.UNKNOWN, "muted")
    seconds = now - run["output_at"]
    if run["state"] not in LIVE:
        return Cell(text.age(seconds), "muted")
    if seconds >= SILENT_S:
        return Cell(f"{text.age(seconds)}!", "bad")
    return Cell(text.age(seconds), "warn" if seconds >= QUIET_S else "good")


def speed_of(run: RunView, course: Course | None) -> str:
    """Tokens or steps a second, as the program says or as its steps went by."""
    metrics = run["metrics"]
    for key, unit in (("tokens_per_s", "tok/s"), ("steps_per_s", "st/s")):
        if isinstance(metrics.get(key), int | float):
            return f"{text.short_number(metrics[key])} {unit}"
    speed = course.steps_per_s() if course else None
    return f"{text.short_number(speed)} st/s" if speed else text.UNKNOWN


def eta_of(run: RunView, course: Course | None) -> float | None:
    """Seconds to the last step, where the program says how many there are."""
    total = run["metrics"].get("total_steps")
    speed = run["metrics"].get("steps_per_s") or (course.steps_per_s() if course else None)
    if run["step"] is None or not isinstance(total, int) or not speed:
        return None
    return max(total - run["step"], 0) / float(speed)


def took_of(run: RunView, now: float) -> float | None:
    """Seconds since the run began, or from its beginning to its end."""
    if run["started_at"] is None:
        return None
    return (run["ended_at"] or now) - run["started_at"]


def run_cells(run: RunView, sight: Sight, fleet: Fleet) -> dict[str, Cell]:
    """Every cell of a run by its column's name."""
    course = sight.courses.get(run["id"])
    live = run["state"] in LIVE
    quiet = "plain" if live else "muted"
    alarms = len(fleet.open_incidents(run["id"]))
    losses = [loss for _, loss in course.losses] if course else []
    eta = eta_of(run, course) if live else None
    gpus = fleet.gpus_of(run["id"]) if live else []
    link = LINKS.get(run["link"], ("?", "plain"))
    where = run["target"] if run["link"] == "connected" else f"{link[0]} {run['target']}"
    return {
        "badge": Cell("!" if alarms else "", "bad"),
        "run": Cell(text.harmless(run["id"]), "strong" if live else quiet),
        "state": state_cell(run),
        "step": Cell(text.number(run["step"]), quiet),
        "loss": Cell(text.number(run["loss"]), quiet),
        "trend": Cell(text.sparkline(losses, 16), "busy" if live else "muted"),
        "speed": Cell(speed_of(run, course) if live else "", quiet),
        "eta": Cell(text.duration(eta) if eta is not None else "", quiet),
        "phase": Cell(text.harmless(run["phase"] or "") if live else ending(run), quiet),
        "output": output_age(run, sight.now),
        "gpus": Cell("".join(map(use_block, gpus)), "busy"),
        "target": Cell(text.harmless(where), quiet if link[1] == "good" else link[1]),
        "took": Cell(text.duration(took_of(run, sight.now)), quiet),
        "why": Cell(text.harmless(run["why"]), quiet),
    }


def ending(run: RunView) -> str:
    """`exit 1`, `signal 9`, or nothing where it is not known."""
    if run["signal"] is not None:
        return f"signal {run['signal']}"
    return f"exit {run['exit_code']}" if run["exit_code"] is not None else ""


def wanted(run: RunView, words: str) -> bool:
    """Whether every word of a filter is somewhere in the run."""
    keys = (run["id"], run["job"], run["target"], run["state"], run["phase"] or "", run["why"])
    whole = " ".join(keys).lower()
    return all(word in whole for word in words.lower().split())


SORTS: Mapping[str, str] = {
    "newest": "newest first",
    "trouble": "trouble first",
    "silent": "longest silent first",
    "loss": "lowest loss first",
    "name": "by name",
}
GROUPS = ("none", "target", "job", "state")
_TROUBLE = ("lost", "failed", "backoff", "stopping", "running", "starting", "deploying", "pending")


def sort_key(order: str, run: RunView, fleet: Fleet) -> tuple[Any, ...]:
    """What runs are sorted by; the newest first among equals."""
    newest = -run["created_at"]
    match order:
        case "trouble":
            calm = not fleet.open_incidents(run["id"])
            state = run["state"]
            place = _TROUBLE.index(state) if state in _TROUBLE else len(_TROUBLE)
            return (calm, place, newest)
        case "silent":
            return (run["state"] not in LIVE, run["output_at"] or 0.0, newest)
        case "loss":
            loss = run["loss"]
            return (loss is None or loss != loss, loss, newest)
        case "name":
            return (run["job"], run["number"])
        case _:
            return (newest,)


def run_rows(
    sight: Sight,
    *,
    words: str = "",
    order: str = "newest",
    group: str = "none",
) -> list[Row]:
    """The runs' rows: filtered, sorted, and under a heading for each group."""
    fleet = sight.fleet
    if fleet is None:
        return []
    runs = [run for run in fleet.runs.values() if wanted(run, words)]
    runs.sort(key=lambda run: sort_key(order, run, fleet))
    if group == "none":
        return [_run_row(run, sight, fleet) for run in runs]
    groups: dict[str, list[RunView]] = {}
    for run in runs:
        groups.setdefault(str(run[group]), []).append(run)  # type: ignore[literal-required]  # GROUPS
    rows: list[Row] = []
    for name, members in groups.items():
        live = sum(1 for run in members if run["state"] in LIVE)
        heading = f"{text.harmless(name)}  {len(members)} runs, {live} live"
        rows.append(Row(f"group {name}", {"heading": Cell(heading)}, heading=True))
        rows += [_run_row(run, sight, fleet) for run in members]
    return rows


def _run_row(run: RunView, sight: Sight, fleet: Fleet) -> Row:
    return Row(run["id"], run_cells(run, sight, fleet))


# --- targets and GPUs ----------------------------------------------------------------------------


def share(gpu: Mapping[str, Any]) -> float | None:
    """Share of a GPU's memory that is in use."""
    used, total = gpu.get("memory_used_bytes"), gpu.get("memory_total_bytes")
    return used / total if used is not None and total else None


def use(gpu: Mapping[str, Any]) -> float | None:
    """Share of the time in which a GPU computed."""
    percent = gpu.get("utilization_percent")
    return percent / 100 if percent is not None else None


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
        Row(target["name"], _target_cells(target, sight.now))
        for target in sight.fleet.targets.values()
    ]


def _target_cells(target: TargetView, now: float) -> dict[str, Cell]:
    shape, kind = LINKS.get(target["link"], ("?", "plain"))
    gpus = target["gpus"]
    used = sum(gpu.get("memory_used_bytes") or 0 for gpu in gpus)
    total = sum(gpu.get("memory_total_bytes") or 0 for gpu in gpus)
    old = target["link"] != "connected"
    seen = now - target["seen_at"] if target["seen_at"] is not None else None
    note = text.harmless(target["error"] or "")
    if not note and target["watched"] == "shell":
        note = "plain shell: no Python there; tails only, every few seconds"
    return {
        "target": Cell(text.harmless(target["name"]), "strong"),
        "link": Cell(f"{shape} {target['link']}", kind),
        "seen": Cell(text.age(seen), "warn" if old else "muted"),
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


def summary(sight: Sight) -> list[Cell]:
    """The line over the fleet: runs, GPUs, incidents."""
    fleet = sight.fleet
    if fleet is None:
        return []
    live = sum(1 for run in fleet.runs.values() if run["state"] in LIVE)
    failed = sum(1 for run in fleet.runs.values() if run["state"] in {"failed", "lost"})
    alarms = len(fleet.open_incidents())
    cells = [
        Cell(f"{live} live of {_count(len(fleet.runs), 'run')}", "strong" if live else "plain")
    ]
    if failed:
        cells.append(Cell(f"{failed} failed", "muted"))
    if alarms:
        cells.append(Cell(f"! {_count(alarms, 'open incident')}", "bad"))
    cells += gpu_summary(fleet.targets.values())
    blind = sum(1 for one in fleet.targets.values() if one["link"] == "unreachable")
    if blind:
        cells.append(Cell(f"○ {_count(blind, 'target')} unreachable", "bad"))
    return cells


def gpu_summary(targets: Iterable[TargetView]) -> list[Cell]:
    """`8 GPUs`, `3 busy`, ...; GPUs of an unreachable target count as unknown."""
    counts = dict.fromkeys(("busy", "idle", "wasted", "unknown"), 0)
    for target in targets:
        for gpu in target["gpus"]:
            counts["unknown" if target["link"] == "unreachable" else gpu_word(gpu)] += 1
    whole = sum(counts.values())
    if not whole:
        return [Cell("no GPUs seen", "muted")]
    kinds = {"busy": "good", "idle": "plain", "wasted": "warn", "unknown": "muted"}
    told = [Cell(f"{count} {word}", kinds[word]) for word, count in counts.items() if count]
    return [Cell(_count(whole, "GPU")), *told]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def gpu_line(gpu: Mapping[str, Any], width: int) -> Cell:
    """One GPU in one line of at most `width` cells."""
    percent, watts = gpu.get("utilization_percent"), gpu.get("power_w")
    heat = gpu.get("temperature_c")
    used = text.size(gpu.get("memory_used_bytes")).removesuffix(" GiB")
    busy = f"{percent:.0f}%" if percent is not None else "?"
    parts = [
        f"{gpu['index']:>2} {text.bar(use(gpu), 8)} {busy:>4}",
        f"{text.bar(share(gpu), 8)} {used}/{text.size(gpu.get('memory_total_bytes'))}",
        f"{watts:.0f} W" if watts is not None else "",
        f"{heat:.0f} C" if heat is not None else "",
        gpu_word(gpu),
    ]
    line = ""
    for part in filter(None, parts):
        longer = f"{line}  {part}" if line else part
        if len(longer) > width:
            break
        line = longer
    kinds = {"busy": "plain", "wasted": "warn", "idle": "muted", "unknown": "muted"}
    return Cell(line, kinds[gpu_word(gpu)])


# --- one run -------------------------------------------------------------------------------------


def run_title(run: RunView) -> list[Cell]:
    """Who it is, and how it stands."""
    cells = [Cell(text.harmless(run["id"]), "strong"), state_cell(run)]
    if run["state"] not in LIVE:
        cells.append(Cell(ending(run), "muted"))
    cells.append(Cell(f"on {text.harmless(run['target'])}"))
    if run["attempt"] > 1:
        cells.append(Cell(f"attempt {run['attempt']}", "warn"))
    if run["detached"]:
        cells.append(Cell("its tmux session is gone", "warn"))
    if run["link"] != "connected":
        shape, kind = LINKS.get(run["link"], ("?", "plain"))
        cells.append(Cell(f"{shape} {run['link']}", kind))
    if run["why"]:
        cells.append(Cell(text.harmless(run["why"]), "muted"))
    return [cell for cell in cells if cell.text]


def run_facts(run: RunView, sight: Sight, *, width: int) -> list[Cell]:
    """Step, loss and its course, speed, time left, phase, age of the output."""
    course = sight.courses.get(run["id"])
    live = run["state"] in LIVE
    total = run["metrics"].get("total_steps")
    cells = []
    if run["step"] is not None:
        of = f"/{total}" if isinstance(total, int) else ""
        cells.append(Cell(f"step {run['step']}{of}", "strong"))
    if run["loss"] is not None:
        cells.append(Cell(f"loss {text.number(run['loss'])}", "strong"))
    if course and course.losses and width >= 60:
        cells.append(
            Cell(
                text.sparkline([loss for _, loss in course.losses], 32 if width > 110 else 12),
                "busy",
            )
        )
    if live:
        cells += [Cell(speed_of(run, course))] if run["step"] is not None else []
        eta = eta_of(run, course)
        cells += [Cell(f"{text.duration(eta)} left")] if eta is not None else []
        cells += [Cell(text.harmless(run["phase"]), "busy")] if run["phase"] else []
    cells.append(
        Cell(f"{'for' if live else 'took'} {text.duration(took_of(run, sight.now))}", "muted")
    )
    aged = output_age(run, sight.now)
    if aged.text != text.UNKNOWN:
        cells.append(
            Cell(f"output {aged.text} ago" if "blind" not in aged.text else aged.text, aged.kind)
        )
    return cells


# --- incidents -----------------------------------------------------------------------------------


def incident_lines(incident: IncidentView, now: float) -> list[Cell]:
    """An incident in a few lines: what, where, why, what it is like, and the first thing to do."""
    finding = incident["finding"]
    kind = {"critical": "bad", "warning": "warn"}.get(incident["severity"], "plain")
    opened = text.age(now - incident["opened_at"])
    count = f", {incident['occurrences']} times" if incident["occurrences"] > 1 else ""
    title = text.harmless(incident["title"] or incident["signature"])
    lines = [Cell(f"! {title} [{incident['signature']}]", kind)]
    lines.append(Cell(f"{incident['state']}, {opened} ago{count}", "muted"))
    if raised := raised_text(finding):
        lines.append(Cell(raised))
    if place := place_text(finding):
        lines.append(Cell(place, "plain"))
    if incident["same_as"]:
        lines.append(Cell(f"same as {text.harmless(incident['same_as'])}: not a fix", "warn"))
    if steps := finding.get("next_steps"):
        lines.append(Cell(f"next: {text.harmless(str(steps[0]))}", "strong"))
    return lines


def raised_text(finding: Mapping[str, Any]) -> str:
    """`RuntimeError: Detected that ...`."""
    shown = finding.get("exception")
    return text.harmless(f"{shown['type']}: {shown['message']}") if shown else ""


def place_text(finding: Mapping[str, Any]) -> str:
    """`thread Thread-3 (draft), rank 1 at dflash_model.py:88 in forward`."""
    who = [f"thread {finding['thread']}"] if finding.get("thread") else []
    who += [f"rank {finding['rank']}"] if finding.get("rank") is not None else []
    place = finding.get("in_app_frame") or finding.get("frame")
    at = f"at {frame_text(place)}" if place else ""
    return text.harmless(" ".join(filter(None, [", ".join(who), at])))


def frame_text(frame: Mapping[str, Any]) -> str:
    """`file:line in function`."""
    inside = f" in {frame['function']}" if frame.get("function") else ""
    return text.harmless(f"{frame['file']}:{frame['line']}{inside}")


def gpu_brief(gpus: Sequence[Mapping[str, Any]]) -> list[Cell]:
    """All GPUs in two lines: one block a GPU for its use, one for its memory."""
    used = sum(gpu.get("memory_used_bytes") or 0 for gpu in gpus)
    total = sum(gpu.get("memory_total_bytes") or 0 for gpu in gpus)
    known = [percent for gpu in gpus if (percent := gpu.get("utilization_percent")) is not None]
    mean = f"{sum(known) / len(known):.0f}%" if known else "?"
    words = {word: sum(1 for gpu in gpus if gpu_word(gpu) == word) for word in ("busy", "wasted")}
    told = ", ".join(f"{count} {word}" for word, count in words.items() if count) or "idle"
    name = _count(len(gpus), "GPU")
    blocks = "".join(text.block(share(gpu)) for gpu in gpus)
    return [
        Cell(f"{name}  use {''.join(map(use_block, gpus))} {mean}, {told}"),
        Cell(f"{'':{len(name)}}  mem {blocks} {text.size(used)} of {text.size(total)}"),
    ]
