"""status, ps, wait and top: what the daemon knows, as tables or as it was said."""

import argparse
import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.api.client import ANSWER_TIMEOUT_S, Client, quoted
from orchestrator.cli import output
from orchestrator.cli.reach import connect, warn_if_outdated
from orchestrator.core.parse.gpu_notes import notes
from orchestrator.core.parse.shared_gpus import shared_words, shown_above
from orchestrator.core.parse.until import parse_until

FINISHED, FAILED, STOPPED, TIMEOUT = 0, 100, 103, 124
ENDS = {"finished": FINISHED, "failed": FAILED, "lost": FAILED, "stopped": STOPPED}
"""Exit code of `run` and `wait` for each end of a run."""

MAX_ENDED = 10
_WAIT_SLICE_S = 50
"""A longer wait is asked for in pieces, so that a dead daemon is noticed."""


def status(options: argparse.Namespace) -> int:
    """Print targets, runs and open incidents; with --since what changed after a cursor."""
    client = connect(options)
    if options.watch and options.since is not None:
        return _watch_since(client, options)
    if options.watch:
        for _ in client.events():
            _print_snapshot(client.get("/v1/snapshot"), options)
        return 0
    _print_snapshot(client.get("/v1/snapshot", {"since": options.since}), options)
    return 0


def _watch_since(client: Client, options: argparse.Namespace) -> int:
    """Print what changed after the cursor, and each change that comes; nothing that is empty."""
    for name, change in client.events():
        # The events begin before the question, so that nothing falls between the two.
        news = (
            client.get("/v1/snapshot", {"since": options.since}) if name == "snapshot" else change
        )
        if news["targets"] or news["runs"] or news["incidents"]:
            _print_snapshot(news, options)
    return 0


def _print_snapshot(snapshot: Mapping[str, Any], options: argparse.Namespace) -> None:
    if options.json:
        output.print_json_line(snapshot) if options.watch else output.print_json(snapshot)
        return
    daemon, moment = snapshot["daemon"], snapshot["at"]
    warn_if_outdated(daemon)
    output.say(f"daemon {daemon['pid']}, inventory {daemon.get('inventory', '-')}")
    if daemon.get("inventory_error"):
        output.say("The inventory on disk is not used, it has faults:", daemon["inventory_error"])
    if daemon.get("rebuilding"):
        output.say(f"The database was lost; its runs are being asked for: {daemon['rebuilding']}.")
    unset = [sink["name"] for sink in daemon.get("sinks", ()) if sink["state"] != "ready"]
    if unset:
        output.say(f"Alerts wait: {', '.join(unset)} is not ready (`orch daemon status`).")
    _section("TARGET LINK SEEN GPUS", [_target_row(t, moment) for t in snapshot["targets"]])
    _section(RUN_HEADS, [run_row(run, moment) for run in _worth_showing(snapshot["runs"])])
    incidents = [i for i in snapshot["incidents"] if i["state"] != "resolved"]
    _section("INCIDENT RUN SEVERITY STATE TITLE", [_incident_row(i) for i in incidents])
    if options.since is not None:
        output.say(f"cursor {snapshot['cursor']}")


def _worth_showing(runs: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """What lives and the newest of what has ended, newest first; `orch ps` has more."""
    newest = sorted(runs, key=lambda run: float(run["created_at"]), reverse=True)
    ended = [run["id"] for run in newest if run["state"] in ENDS][:MAX_ENDED]
    return [run for run in newest if run["state"] not in ENDS or run["id"] in ended]


def _section(heads: str, rows: Sequence[Sequence[str]]) -> None:
    if rows:
        output.say("", *output.table(heads.split(), rows))


def _target_row(target: Mapping[str, Any], moment: float) -> list[str]:
    link = target["link"]
    if link == "unreachable" and target["seen_at"] is None and not target["error"]:
        return [target["name"], "not looked at yet", "-", "-"]
    return [
        target["name"],
        link if target["watched"] == "probe" else f"{link} (plain shell)",
        output.age(target["seen_at"], moment),
        target["error"] or gpu_summary(target["gpus"]),
    ]


def gpu_summary(gpus: Sequence[Mapping[str, Any]]) -> str:
    """`8 GPUs, 3 busy, 312.0 GiB of 640.0 GiB`."""
    if not gpus:
        return "none"
    busy = sum(1 for gpu in gpus if (gpu.get("utilization_percent") or 0) > 0)
    used = sum(gpu.get("memory_used_bytes") or 0 for gpu in gpus)
    total = sum(gpu.get("memory_total_bytes") or 0 for gpu in gpus)
    count = f"{len(gpus)} GPU{'s' if len(gpus) > 1 else ''}"
    return f"{count}, {busy} busy, {output.size(used)} of {output.size(total)}"


RUN_HEADS = "RUN STATE STEP LOSS PHASE OUTPUT TARGET WHY"


def run_row(run: Mapping[str, Any], moment: float) -> list[str]:
    """A run as a row under RUN_HEADS."""
    return [
        run["id"],
        run["state"],
        output.number(run["step"]),
        output.number(run["loss"]),
        run["phase"] or "-",
        output.age(run["output_at"], moment),
        run["target"],
        run["why"],
    ]


def _incident_row(incident: Mapping[str, Any]) -> list[str]:
    keys = ("id", "run", "severity", "state", "title")
    return [str(incident[key]) for key in keys]


def ps(options: argparse.Namespace) -> int:
    """Print runs, newest first."""
    query = {"all": 1 if options.all else None, "job": options.job}
    found = connect(options).get("/v1/runs", query)
    if options.json:
        output.print_json(found)
        return 0
    if not found["runs"]:
        of_job = f" of {options.job}" if options.job else ""
        output.say(f"no runs{of_job} yet; `orch run{of_job[3:]}` starts one")
        return 0
    moment = output.now()
    output.say(*output.table(RUN_HEADS.split(), [run_row(run, moment) for run in found["runs"]]))
    return 0


def wait(options: argparse.Namespace) -> int:
    """Return when it has happened: 0, or for `ended` the run's own end; 124 when time is up.

    A run that ends without reaching another condition gives 100, 103, or 1 where it finished.
    """
    if parse_until(options.until).kind != "incident" and options.run is None:
        options.parser.error("the following arguments are required: RUN")
    said = _wait(connect(options), options.run, options.until, options.timeout)
    run = said["run"]
    if options.json:
        output.print_json(said)
    else:
        output.say(_wait_line(run, str(said["reason"])))
    return _wait_code(options.until, reached=said["reached"], state=run["state"] if run else "")


def _wait_line(run: Mapping[str, Any] | None, reason: str) -> str:
    if run is None:
        return f"no incident: {reason}"
    known = {"", run["state"], f"the run is {run['state']}"}
    return f"{run['id']} {run['state']}" + ("" if reason in known else f": {reason}")


def _wait(client: Client, run: str | None, until: str, timeout_s: float | None) -> dict[str, Any]:
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    while True:
        left_s = _WAIT_SLICE_S if deadline is None else deadline - time.monotonic()
        piece_s = max(1, math.ceil(min(left_s, _WAIT_SLICE_S)))  # the API takes whole seconds
        query: dict[str, str | int | float | None] = {"until": until, "timeout": piece_s}
        path = "/v1/wait" if run is None else f"/v1/runs/{quoted(run)}/wait"
        said = client.get(path, query, timeout_s=piece_s + ANSWER_TIMEOUT_S)
        last = deadline is not None and left_s <= _WAIT_SLICE_S
        if said["reached"] or last or (run is not None and said["run"]["state"] in ENDS):
            return said
        if run is not None:
            run = said["run"]["id"]  # `@1` must not become another run half-way


def _wait_code(until: str, *, reached: bool, state: str) -> int:
    if until == "ended":
        return ENDS.get(state, TIMEOUT)
    if reached:
        return 0
    return (ENDS[state] or 1) if state in ENDS else TIMEOUT


def top(options: argparse.Namespace) -> int:
    """Print the GPUs of every target and who uses them."""
    found = connect(options).get("/v1/top")
    if options.json:
        output.print_json(found)
        return 0
    moment = output.now()
    above = shown_above(found["targets"])
    for target in found["targets"]:
        own = [one for one in target["gpus"] if (target["name"], int(one["index"])) not in above]
        age = output.age(target["gpus_at"], moment)
        seen = f"GPUs {age} ({target['gpu_source'] or '-'})" if target["gpus"] else "no GPU is seen"
        output.say(f"{target['name']}  {target['link']}, {seen}")
        if target["error"]:
            output.say(f"  {target['error']}")
        heads = "GPU NAME USE MEMORY POWER TEMP PROCESSES"
        rows = [_gpu_row(gpu) for gpu in own]
        output.say(*(f"  {line}" for line in output.table(heads.split(), rows) if rows))
        output.say(*(f"  {words}" for words in shared_words(above, target["name"])))
        for gpu in own:
            if wrong := notes(gpu["extra"]):
                output.say(f"  GPU {gpu['index']}: {'; '.join(wrong)}")
    return 0


def _gpu_row(gpu: Mapping[str, Any]) -> list[str]:
    def unit(key: str, sign: str) -> str:
        return "-" if gpu.get(key) is None else f"{gpu[key]:.0f}{sign}"

    used, total = gpu.get("memory_used_bytes"), gpu.get("memory_total_bytes")
    return [
        str(gpu["index"]),
        gpu.get("name") or "-",
        unit("utilization_percent", "%"),
        f"{output.size(used)} / {output.size(total)}",
        unit("power_w", " W"),
        unit("temperature_c", " C"),
        ", ".join(_owner(one) for one in gpu.get("processes", ())) or "-",
    ]


def _owner(one: Mapping[str, Any]) -> str:
    where = one.get("run") or one.get("container") or one.get("command") or "?"
    return f"{one.get('pid')} {where} {output.size(one.get('memory_bytes'))}"
