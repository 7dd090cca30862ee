"""Ends one process that holds a GPU, as somebody saw it in the list; nothing else can be ended so.

Owns the question of where the PID counts: on the host where that told of the GPUs, else inside.
"""

from collections.abc import Mapping
from typing import Any

from orchestrator.core.errors import NoSuchRun, UsageError
from orchestrator.core.model import Target
from orchestrator.daemon.parts import Parts
from orchestrator.daemon.timeline import note_command
from orchestrator.link.calls import CallFailed

Message = dict[str, Any]
GRACE_S = 10.0
MOST_GRACE_S = 600.0
SLACK_S = 30.0


async def end_process(parts: Parts, words: str, body: Mapping[str, Any]) -> Message:
    """POST /v1/targets/TARGET/end-process: SIGTERM, then SIGKILL, to the process that was seen."""
    target = _target(parts, words)
    pid, start, command = _asked(body)
    grace_s = body.get("grace_s", GRACE_S)
    if not isinstance(grace_s, int | float) or not 0 <= grace_s <= MOST_GRACE_S:
        raise UsageError(f"`grace_s` is a number of seconds from 0 to {MOST_GRACE_S:g}.")
    seen = _seen(parts, target, pid, start, command)
    machine = parts.fleet.machine(target)
    on_host = target.runtime != "none" and machine.sees_gpus
    link = machine.link if on_host else parts.fleet.link(target)
    await _note(parts, seen)
    try:
        answer = await link.call(
            "end_pid",
            timeout_s=grace_s + SLACK_S,
            pid=pid,
            start=start,
            command=command,
            grace_s=grace_s,
        )
    except CallFailed as error:
        raise UsageError(error.message, remedy=error.remedy) from error
    return {"pid": pid, "command": command, "ended": bool(answer["ended"])}


def _target(parts: Parts, words: str) -> Target:
    target = parts.inventory.targets.get(words)
    if target is None:
        there = ", ".join(sorted(parts.inventory.targets)) or "none"
        raise UsageError(f"The inventory has no target {words}.", remedy=f"It has {there}.")
    return target


def _asked(body: Mapping[str, Any]) -> tuple[int, int, str]:
    pid, start, command = body.get("pid"), body.get("start"), body.get("command")
    if not isinstance(pid, int) or not isinstance(start, int) or not isinstance(command, str):
        raise UsageError(
            "`pid`, `start` and `command` are wanted, as the GPU's `processes` have them.",
            remedy="A process whose `start` is not told can only be ended on the target itself.",
        )
    return pid, start, command


def _seen(parts: Parts, target: Target, pid: int, start: int, command: str) -> Mapping[str, Any]:
    gpus = parts.fleet.gpus(target.name)
    for sample in gpus.samples if gpus is not None else ():
        for one in sample.processes:
            if (one.get("pid"), one.get("start"), one.get("command")) == (pid, start, command):
                return one
    raise UsageError(
        f"PID {pid} is not among those that hold a GPU of {target.name} now, or is another one.",
        remedy="Look at `orch top` once more, and choose again.",
    )


async def _note(parts: Parts, seen: Mapping[str, Any]) -> None:
    """Where it belongs to a run of ours, the run's timeline says who ended it."""
    run = seen.get("run")
    if not isinstance(run, str):
        return
    try:
        known = await parts.store.runs.get(run)
    except NoSuchRun:
        return
    await note_command(parts, known.id, "end-process", pid=seen["pid"])
