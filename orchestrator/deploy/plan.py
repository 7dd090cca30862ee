"""What deploying a bundle would change on a target: asked of the target, changing nothing there.

Owns how the manifest is told, whole or by what is different from the last one.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from orchestrator.core.errors import DeployError, OrchError, UsageError
from orchestrator.core.model import Job
from orchestrator.deploy.bundle import Bundle
from orchestrator.deploy.provenance import Provenance, describe
from orchestrator.link.calls import CallFailed
from orchestrator.probe import manifest as wire

LARGE_BYTES = 24 * 1024 * 1024
"""A connection of its own costs 0.2 s; what a target tells travels the other way than a deploy."""
OFFER_WITHIN_S = 120.0


class Caller(Protocol):
    """What a deploy needs of a link: calls of the probe's ops, each with a deadline."""

    async def call(
        self,
        op: str,
        *,
        timeout_s: float,
        on_progress: Callable[[dict[str, Any]], None] | None = None,
        raw: bytes | None = None,
        **args: Any,
    ) -> Any:
        """The op's value; OrchError where it fails or the link does. `raw` becomes its `data`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployPlan:
    """What a deploy would change on a target; nothing has been changed yet."""

    job: str
    target: str
    release: str
    current: str | None
    """The release there now."""
    exists: bool
    """Whether the release is there already, so that only `current` changes."""
    missing: tuple[str, ...]
    """SHA-256 of what has to be sent."""
    paths: tuple[str, ...]
    """Files whose content has to be sent."""
    files: int
    bytes_to_send: int
    setup: bool
    """Whether the environment has to be made."""
    manifest: Mapping[str, Any] = field(repr=False)
    """As the target understood it."""
    provenance: Provenance = field(repr=False)

    @property
    def large(self) -> bool:
        """Whether the transfer deserves a connection of its own (`link.bulk()`)."""
        return self.bytes_to_send > LARGE_BYTES

    @property
    def changes_nothing(self) -> bool:
        """Whether the target has this very release as its current one."""
        return self.current == self.release and not self.missing and not self.setup

    def to_json(self) -> dict[str, Any]:
        """As the API gives it."""
        return {
            "job": self.job,
            "target": self.target,
            "release": self.release,
            "current": self.current,
            "exists": self.exists,
            "files": self.files,
            "files_to_send": len(self.paths),
            "files_unchanged": self.files - len(self.paths),
            "bytes_to_send": self.bytes_to_send,
            "paths": list(self.paths),
            "setup": self.setup,
        }


async def look_ahead(caller: Caller, job: Job) -> None:
    """Have the target look what of its current release has changed, while it is not asked yet.

    Never fails: the plan tells.
    """
    with contextlib.suppress(OrchError):
        await look(caller, job)


async def look(caller: Caller, job: Job) -> None:
    """As `look_ahead`, but Unreachable where nobody answers."""
    with contextlib.suppress(CallFailed):  # what is wrong there is the plan's to tell
        await caller.call("release_look", timeout_s=OFFER_WITHIN_S, workdir=job.workdir)


async def plan(
    caller: Caller,
    job: Job,
    bundle: Bundle,
    base: Bundle | None = None,
    described: Awaitable[Provenance] | None = None,
) -> DeployPlan:
    """What deploying the bundle would do; asks the target and changes nothing there.

    `base`: what was deployed there last, as far as is known: then only the changes are told.
    `described`: the answers of git, where it was asked before.
    """
    try:
        async with asyncio.TaskGroup() as group:
            asked_git = described or group.create_task(describe(bundle.folder))
            offered = group.create_task(_offer(caller, job, bundle, base))
    except ExceptionGroup as failures:
        raise first_of(failures) from failures
    manifest, answer = offered.result()
    missing = frozenset(answer["missing"])
    wanted = sorted(
        entry
        for entry in bundle.manifest.entries
        if entry.content in missing and entry.kind == wire.FILE
    )
    sizes = {entry.content: entry.size for entry in wanted}
    return DeployPlan(
        job=job.name,
        target=job.target.name,
        release=bundle.digest,
        current=answer["current"],
        exists=answer["exists"],
        missing=tuple(sizes),
        paths=tuple(entry.path for entry in wanted),
        files=bundle.files,
        bytes_to_send=sum(sizes.values()),
        setup=answer["setup"],
        manifest=manifest,
        provenance=await asked_git,
    )


async def _offer(
    caller: Caller, job: Job, bundle: Bundle, base: Bundle | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The manifest as it was understood there, and the answer."""
    manifest = bundle.told_since(base) if base is not None else None
    if manifest is not None:
        answer = await _offered(caller, job, bundle, manifest)
        if "unknown" not in answer:
            return manifest, answer
    manifest = await asyncio.to_thread(bundle.told_whole)
    return manifest, await _offered(caller, job, bundle, manifest)


async def _offered(
    caller: Caller, job: Job, bundle: Bundle, manifest: dict[str, Any]
) -> dict[str, Any]:
    answer: dict[str, Any] = await asked(
        caller,
        "release_offer",
        timeout_s=OFFER_WITHIN_S,
        workdir=job.workdir,
        digest=bundle.digest,
        manifest=manifest,
        **surroundings(job),
    )
    return answer


async def asked(caller: Caller, op: str, **args: Any) -> Any:
    """One call; DeployError where the op failed there, so that nothing was switched.

    UsageError where it was told a name that nothing there has.
    """
    try:
        return await caller.call(op, **args)
    except CallFailed as exc:
        error = UsageError if exc.error_type == UsageError.__name__ else DeployError
        raise error(exc.message, remedy=exc.remedy) from exc


def first_of(failures: ExceptionGroup) -> Exception:
    """The failure that ended the others: the first OrchError, or else the first there is."""
    ours = failures.subgroup(OrchError)
    found: Exception = ours if ours is not None else failures
    while isinstance(found, ExceptionGroup):
        found = found.exceptions[0]
    return found


def surroundings(job: Job) -> dict[str, Any]:
    """In what setup runs on the target."""
    folder = job.target.python_folder
    return {"env": dict(job.env), "path_first": [folder] if folder else []}
