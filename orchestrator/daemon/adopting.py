"""`orch adopt` as a person asks for it: looked at, refused or stored, then followed as a run."""

from collections.abc import AsyncGenerator, Mapping
from typing import Any

from orchestrator.core.adhoc import find_target
from orchestrator.core.errors import LaunchError, UsageError
from orchestrator.core.model import Run, RunState
from orchestrator.daemon import adopted, moving, numbering
from orchestrator.daemon.parts import Parts
from orchestrator.daemon.timeline import note_command
from orchestrator.link.calls import CallFailed

Message = dict[str, Any]


async def adopt(parts: Parts, body: Mapping[str, Any]) -> AsyncGenerator[Message, None]:
    """POST /v1/adopt: adopting{command, pid}, then stored{run}."""
    word, what = body.get("target"), body.get("what")
    if not isinstance(word, str) or not isinstance(what, str):
        raise UsageError("`target` and `what` are text.")
    inventory = parts.file.checked()
    # Who asked has looked it up in ~/.ssh/config, which may not be ours.
    target = find_target(word, inventory, (word,))
    async for message in moving.drive(parts, [target]):
        yield message
    link = parts.fleet.link(target)
    take_pipe = bool(body.get("take_pipe"))
    try:
        seen = await link.call(
            "adopt_look", what=what, socket=target.tmux_socket, take_pipe=take_pipe
        )
    except CallFailed as error:
        raise LaunchError(error.message, remedy=error.remedy) from error
    said = {
        "target": word,
        "session": seen["name"],
        "folder": f"{seen['folder']}/{seen['name']}",
        "what": seen["what"],
        "take_pipe": take_pipe,
    }
    yield {"kind": "adopting", "pid": seen["pid"], "command": seen["command"]}
    job = adopted.job_for(said, inventory, target)
    await numbering.settle(parts, job)
    uid = parts.clock.new_id(6)
    draft = Run(
        id="",
        uid=uid,
        job=job.name,
        target=target.name,
        number=0,
        state=RunState.PENDING,
        attempt=1,
        session=seen["name"],
        directory=f"{job.workdir}/runs/{{id}}.{uid}",
        why=str(body.get("why") or f"adopted: {seen['command']}"),
        host=parts.leasing.key(target.host),
        whereabouts=target,
    )
    with parts.crew.beginning(uid):
        stored = await parts.store.runs.create(draft)
        await adopted.keep(parts.store, stored, said)
        await note_command(parts, stored.id, "adopt")
        await parts.crew.begin(stored, job)
    yield {"kind": "stored", "run": await parts.crew.display.view(stored.id)}
