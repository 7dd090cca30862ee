"""GPUs of a target from two views, its container's and its host's; pure.

The container says which GPUs are its own, the host who holds them.
"""

from dataclasses import replace

from orchestrator.core.events import GpusSampled


def merged(inside: GpusSampled | None, host: GpusSampled | None) -> GpusSampled | None:
    """What is shown of a container's GPUs: the host's word on those that the container has.

    `source` names who saw them, since a container sees no process but its own.
    """
    if host is None or not host.samples or _has_none(inside):
        if inside is None or not inside.source:
            return inside
        return replace(inside, source=f"{inside.source} in the container")
    own = {sample.uuid for sample in inside.samples} if inside else set()
    samples = tuple(one for one in host.samples if not own or one.uuid in own)
    error = inside.error if inside else None
    source = f"{host.source} on the host"
    return replace(host, samples=samples, source=source, error=host.error or error)


def _has_none(inside: GpusSampled | None) -> bool:
    """Whether there is no GPU in the container, which is not the same as seeing none."""
    return inside is not None and not inside.samples and not inside.error
