"""What is one question and one call: acknowledge, silence, save a bundle, end a program."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from textual.app import App

from orchestrator.api.client import quoted
from orchestrator.api.messages import IncidentView, RunView
from orchestrator.core.errors import OrchError
from tui import bridge, gpus, silences
from tui.cells import Cell
from tui.fleet import Fleet
from tui.messages import ActionWanted
from tui.screens.windows import Choose, Confirm
from tui.source import Source, incident_path
from tui.text import harmless, size

_LASTS: Mapping[str, float] = {
    "an hour": 3600.0,
    "four hours": 4 * 3600.0,
    "a day": 86_400.0,
    "thirty days": 30 * 86_400.0,
}


class NothingToDo(OrchError):  # noqa: N818  says what happened
    """There is nothing there that this could be done to."""


async def perform(
    app: App[None], source: Source, wanted: ActionWanted, fleet: Fleet | None
) -> None:
    """Do one of them."""
    match wanted.action:
        case "ack":
            await acknowledge(app, source, wanted.incident)
        case "silence":
            await silence(app, source, fleet, wanted)
        case "expire":
            await expire(app, source, wanted.silence)
        case "bundle":
            await bundle(app, source, wanted.run)
        case _:
            await end_program(app, source, fleet, wanted.program)


async def acknowledge(app: App[None], source: Source, incident: str | None) -> None:
    """Say that somebody cares."""
    if incident is None:
        raise NothingToDo("There is no incident here.")
    path = incident_path(incident, "/ack")
    said = await bridge.in_thread(lambda: source.ask("POST", path))
    app.notify(f"{said['id']} is {said['state']}.")


async def silence(app: App[None], source: Source, fleet: Fleet | None, about: ActionWanted) -> None:
    """Keep alerts back: asks which, and how long."""
    run = fleet.runs.get(about.run or "") if fleet else None
    incident = fleet.incidents.get(about.incident or "") if fleet else None
    kinds = _kinds(run, incident)
    if not kinds:
        raise NothingToDo("There is no run or incident under the cursor to silence alerts of.")
    which = await app.push_screen_wait(Choose("Keep back which alerts?", list(kinds)))
    if which is None:
        return
    lasts = await app.push_screen_wait(Choose(f"{which}: for how long?", list(_LASTS)))
    if lasts is None:
        return
    body = {"match": kinds[which], "for_s": _LASTS[lasts], "why": "from the dashboard"}
    said = await bridge.in_thread(lambda: source.ask("POST", "/v1/silences", body))
    app.notify(f"Silenced as {said['id']}. z lists what is kept back, and K there ends it.")


async def expire(app: App[None], source: Source, row: str | None) -> None:
    """End a silence that lasts; names what is heard again first."""
    if row is None:
        raise NothingToDo("No silence is under the cursor.")
    told = await bridge.in_thread(lambda: source.ask("GET", "/v1/silences"))
    found = next((one for one in told["silences"] if one["id"] == row), None)
    if found is None:
        raise NothingToDo("It is over, or stands in the inventory: e edits that.")
    lines = [Cell(silences.match_text(found), "strong"), Cell("Alerts like that are heard again.")]
    if not await app.push_screen_wait(Confirm(f"End silence {row}?", lines, "ends it")):
        return
    path = f"/v1/silences/{quoted(row)}/expire"
    await bridge.in_thread(lambda: source.ask("POST", path, {}))
    app.notify(f"Silence {row} is over.")


def _kinds(run: RunView | None, incident: IncidentView | None) -> dict[str, dict[str, str]]:
    """What may be silenced, the narrowest first, and its labels."""
    found: dict[str, dict[str, str]] = {}
    if incident is not None:
        mine = {"alertname": incident["signature"], "job": incident["job"]}
        found[f"{incident['signature']} of job {incident['job']}"] = mine
        found[f"{incident['signature']} of any job"] = {"alertname": incident["signature"]}
    job = run["job"] if run else incident["job"] if incident else None
    if job is not None:
        found[f"every alert of job {job}"] = {"job": job}
    if run is not None:
        found[f"every alert of target {run['target']}"] = {"target": run["target"]}
    return found


async def bundle(app: App[None], source: Source, run: str | None) -> None:
    """Save a run's archive where the dashboard was started."""
    if run is None:
        raise NothingToDo("There is no run here.")
    app.notify(f"Collecting all about {run} ...")
    facts, content = await bridge.in_thread(lambda: source.archive(run))
    # The name is the daemon's to give, the folder is not.
    path = Path.cwd() / os.path.basename(str(facts["name"]))  # noqa: PTH119  text
    try:
        with path.open("xb") as file:
            path.chmod(0o600)
            file.write(content)
    except OSError as error:
        raise OrchError(f"{path}: {error.strerror}.", remedy="orch bundle RUN -o FILE") from error
    removed = f"{facts['secrets_removed']} secrets removed"
    app.notify(f"Saved as {path} ({size(len(content))}, {removed}).", timeout=10)


async def end_program(app: App[None], source: Source, fleet: Fleet | None, row: str | None) -> None:
    """End a program that holds a GPU, if it still is the one that was shown; names it first."""
    found = gpus.program_at(fleet, row) if fleet and row else None
    if fleet is None or found is None:
        raise NothingToDo("No program is under the cursor.")
    target_name, index, program = found
    if program.get("start") is None:
        raise OrchError(
            f"When PID {program.get('pid')} began is not known, so it may be another one by now.",
            remedy="x gives a shell on the target.",
        )
    target = fleet.targets[target_name]
    lines = [
        Cell(f"host {target['host']}, container {program.get('container') or 'none'}", "strong"),
        Cell(f"PID {program['pid']}: {program.get('command') or '?'}", "strong"),
        Cell(f"It holds {size(program.get('memory_bytes'))} of GPU {index}."),
        Cell(_whose(program, fleet), "warn"),
        Cell("It gets SIGTERM, and SIGKILL after 10 s.", "warn"),
    ]
    lines = [Cell(harmless(line.text), line.kind) for line in lines]
    if not await app.push_screen_wait(Confirm(f"End PID {program['pid']}?", lines, "ends it")):
        return
    body = {key: program[key] for key in ("pid", "start", "command")}
    path = f"/v1/targets/{target_name}/end-process"
    said = await bridge.in_thread(lambda: source.ask("POST", path, body))
    word = "ended" if said["ended"] else "is still there"
    app.notify(f"PID {said['pid']} {word}.", severity="information" if said["ended"] else "error")


def _whose(program: Mapping[str, Any], fleet: Fleet) -> str:
    run = fleet.runs.get(program.get("run") or "")
    if run is None:
        return "It is of no run of orch: somebody else's work may be lost."
    if run["state"] in {"running", "starting", "stopping"}:
        return f"It is of {run['id']}, which lives: s stops the whole run instead."
    return f"It is left over from {run['id']}, which is {run['state']}."
