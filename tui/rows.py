"""What the tables and lines say of runs: the fleet as cells and strings, without Textual. Pure."""

import math
from collections.abc import Mapping
from typing import Any

from orchestrator.api.messages import RunView
from tui import text
from tui.cells import LINKS, Cell, Column, Row
from tui.fleet import LIVE, Course, Fleet, Sight
from tui.gpus import count, gpu_summary, use_block

STATES: Mapping[str, tuple[str, str]] = {
    "pending": ("○", "busy"),
    "starting": ("◐", "busy"),
    "running": ("●", "good"),
    "backoff": ("↻", "warn"),
    "stopping": ("◑", "warn"),
    "finished": ("✓", "good"),
    "failed": ("✗", "bad"),
    "stopped": ("■", "muted"),
    "lost": ("?", "bad"),
}
QUIET_S, SILENT_S = 30.0, 120.0
"""Ages of a live run's output from which it is shown as old, and as too old."""
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
    return f"{text.short_number(speed)} st/s" if speed else ""


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
    badge = Cell("!", "bad") if fleet.alarms(run["id"]) else Cell("", "bad")
    if not badge.text and fleet.open_incidents(run["id"]):
        badge = Cell("✓", "muted")  # somebody cares already
    losses = [loss for _, loss in course.losses] if course else []
    eta = eta_of(run, course) if live else None
    gpus = fleet.gpus_of(run["id"]) if live else []
    link = LINKS.get(run["link"], ("?", "plain"))
    # What a run that has ended was seen by last says nothing of its target now.
    seen = not live or run["link"] == "connected"
    where = run["target"] if seen else f"{link[0]} {run['target']}"
    return {
        "badge": badge,
        "run": Cell(text.harmless(run["id"]), "strong" if live else quiet),
        "state": state_cell(run),
        "step": Cell(text.number(run["step"]), quiet),
        "loss": Cell(text.number(run["loss"]), quiet),
        "trend": Cell(text.sparkline(losses, 16), "busy" if live else "muted"),
        "speed": Cell(speed_of(run, course) if live else "", quiet),
        "eta": Cell(text.duration(eta) if eta is not None else "", quiet),
        "phase": Cell(text.harmless(run["phase"] or "") if live else ending(run), quiet),
        "output": output_age(run, sight.now),
        "gpus": Cell("".join(map(use_block, gpus)), "busy" if link[1] == "good" else "muted"),
        "target": Cell(text.harmless(where), quiet if seen else link[1]),
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
_TROUBLE = ("lost", "failed", "backoff", "stopping", "running", "starting", "pending")


def sort_key(order: str, run: RunView, fleet: Fleet) -> tuple[Any, ...]:
    """What runs are sorted by; the newest first among equals."""
    newest = -run["created_at"]
    match order:
        case "trouble":
            calm = not fleet.alarms(run["id"])
            state = run["state"]
            place = _TROUBLE.index(state) if state in _TROUBLE else len(_TROUBLE)
            return (calm, place, newest)
        case "silent":
            return (run["state"] not in LIVE, run["output_at"] or 0.0, newest)
        case "loss":
            loss = run["loss"]
            known = loss is not None and not math.isnan(loss)
            return (not known, loss if known else 0.0, newest)
        case "name":
            return (run["job"], run["number"])
        case _:
            return (newest,)


def view_line(*, words: str, order: str, group: str) -> list[Cell]:
    """What the table leaves out and how it is sorted, where that is not as at first."""
    cells = [Cell(f"only with: {words}", "warn")] if words else []
    cells += [Cell(SORTS[order], "busy")] if order != next(iter(SORTS)) else []
    cells += [Cell(f"by {group}", "busy")] if group != GROUPS[0] else []
    return [*cells, Cell("Esc: all, newest first", "muted")] if cells else []


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


def summary(sight: Sight) -> list[Cell]:
    """The line over the fleet: runs, GPUs, incidents."""
    fleet = sight.fleet
    if fleet is None:
        return []
    live = sum(1 for run in fleet.runs.values() if run["state"] in LIVE)
    failed = sum(1 for run in fleet.runs.values() if run["state"] in {"failed", "lost"})
    alarms = len(fleet.alarms())
    known = len(fleet.open_incidents()) - alarms
    cells = [Cell(f"{live} live of {count(len(fleet.runs), 'run')}", "strong" if live else "plain")]
    if failed:
        cells.append(Cell(f"{failed} failed", "muted"))
    if alarms:
        cells.append(Cell(f"! {count(alarms, 'open incident')}", "bad"))
    if known:
        cells.append(Cell(f"✓ {known} acknowledged", "muted"))
    cells += gpu_summary(fleet.targets.values())
    blind = sum(1 for one in fleet.targets.values() if one["link"] == "unreachable")
    if blind:
        cells.append(Cell(f"○ {count(blind, 'target')} unreachable", "bad"))
    return cells


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
                text.sparkline([loss for _, loss in course.losses], 32 if width > 110 else 8),
                "busy",
            )
        )
    aged = output_age(run, sight.now)
    if aged.text != text.UNKNOWN:
        late = "!" if aged.text.endswith("!") else ""
        words = f"output {aged.text.rstrip('!')} ago{late}"
        words = aged.text if aged.text.startswith("blind") else words
        cells.append(Cell(words, aged.kind))
    if live:
        cells += [Cell(text.harmless(run["phase"]), "busy")] if run["phase"] else []
        speed = speed_of(run, course)
        cells += [Cell(speed)] if speed else []
        eta = eta_of(run, course)
        cells += [Cell(f"{text.duration(eta)} left")] if eta is not None else []
    took = text.duration(took_of(run, sight.now))
    cells.append(Cell(f"{'for' if live else 'took'} {took}", "muted"))
    return cells
