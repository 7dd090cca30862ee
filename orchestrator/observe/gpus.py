"""Samples of GPUs, as typed events.

Owns the translation of the frames that belong to no attempt. The newest count: where nobody
reads, the oldest are dropped.
"""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import fields
from typing import Any

from orchestrator.core.events import GpusSampled
from orchestrator.core.model import GpuSample
from orchestrator.link.link import Link

_KNOWN = frozenset(field.name for field in fields(GpuSample))


async def sampled(
    link: Link, *, interval_s: float, host: bool = False
) -> AsyncGenerator[GpusSampled, None]:
    """Rounds of samples every `interval_s` seconds (0: one round only), while iterated.

    `host`: the link leads to the machine itself, where PIDs of the driver can be looked up.
    TargetError where the probe cannot be asked for them at all.
    """
    feed = link.listen("gpus")
    try:
        first = await link.keep("gpus", interval_s=interval_s, host=host)
        yield gpus_sampled({**first, "t": link.seen_at or 0.0})
        async for frame in feed:
            yield gpus_sampled(frame)
    finally:
        link.unlisten(feed)


def gpus_sampled(frame: Mapping[str, Any]) -> GpusSampled:
    """The event of a `gpus` frame, or of the value of the op of that name."""
    return GpusSampled(
        samples=tuple(_sample(item) for item in frame["samples"]),
        source=str(frame.get("source") or ""),
        at=float(frame["t"]),
        error=frame.get("error"),
    )


def _sample(item: Mapping[str, Any]) -> GpuSample:
    """A sample; keys that this daemon does not know are kept in `extra`."""
    known = {key: value for key, value in item.items() if key in _KNOWN}
    unknown = {key: value for key, value in item.items() if key not in _KNOWN}
    extra = {**(known.pop("extra", None) or {}), **unknown}
    return GpuSample(**{**known, "processes": tuple(known.get("processes") or ()), "extra": extra})
