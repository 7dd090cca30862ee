"""Who holds a GPU, asked of the container's host: a container sees no process but its own.

Owns the joining of the two by the GPU's UUID.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from orchestrator.core.errors import OrchError
from orchestrator.launch.session import Caller

_WITHIN_S = 5.0
"""The words are worth no more waiting."""

Frames = Sequence[Mapping[str, Any]]


async def named(on_host: Caller | None, held: Frames) -> list[dict[str, Any]]:
    """GPUs with `uuid` and `processes`; the host's processes where it tells of any on that GPU."""
    found = await _processes(on_host) if held else {}
    return [
        {**gpu, "processes": found.get(str(gpu.get("uuid"))) or gpu.get("processes")}
        for gpu in held
    ]


async def holders_named(on_host: Caller | None, holders: Frames) -> list[dict[str, Any]]:
    """Holders with `gpu` and `uuid`; one that no container sees is the processes that hold it."""
    found = await _processes(on_host) if any(one.get("pid") is None for one in holders) else {}
    return [seen for one in holders for seen in _seen(one, found)]


def _seen(holder: Mapping[str, Any], found: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    processes = found.get(str(holder.get("uuid"))) if holder.get("pid") is None else None
    if not processes:
        yield dict(holder)
        return
    for process in processes:
        yield {"gpu": holder.get("gpu"), "uuid": holder.get("uuid"), **process}


async def _processes(on_host: Caller | None) -> dict[str, Any]:
    """By UUID; nothing where the host cannot be asked."""
    if on_host is None:
        return {}
    try:
        async with asyncio.timeout(_WITHIN_S):
            answer = await on_host.call("gpus", timeout_s=_WITHIN_S, host=True)
    except (OrchError, TimeoutError):
        return {}
    return {one["uuid"]: one.get("processes") for one in answer["samples"] if one.get("uuid")}
