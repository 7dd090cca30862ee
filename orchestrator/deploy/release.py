"""Deploys a bundle as a release: plan, send what is missing, verify and switch there.

Owns the daemon's side of a deploy, rollback and prune. What the target has at every instant,
the old release or the new one, is the far side's promise (probe/release.py).
"""

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from orchestrator.core.errors import DeployError, OrchError
from orchestrator.core.model import Job, Release
from orchestrator.deploy.bundle import Bundle, read_pieces
from orchestrator.deploy.provenance import Provenance, describe
from orchestrator.link.probe_channel import CallFailed
from orchestrator.probe import manifest as wire

PIECE_BYTES = 1024 * 1024
SENDERS = 4
INLINE_BYTES = 256 * 1024
"""So little travels with the commit itself."""

FAST_BYTES_PER_S = 20e6
"""A link that takes more than this is not worth the time of compressing."""

LARGE_BYTES = 8 * 1024 * 1024
_OFFER_WITHIN_S = 120.0
_PIECE_WITHIN_S = 120.0
_ABANDON_WITHIN_S = 10.0
_COMMIT_WITHIN_S = 600.0
_SETUP_WITHIN_S = 7200.0


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


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployProgress:
    """News of a deploy that is under way."""

    stage: str
    """`send`, `verify` or `setup`."""
    bytes_sent: int = 0
    bytes_total: int = 0
    bytes_per_s: float = 0.0
    """Since the sending began; 0 before the first piece arrived."""
    line: str = ""
    """A line of setup's output."""


OnProgress = Callable[[DeployProgress], None]


async def plan(caller: Caller, job: Job, bundle: Bundle, base: Bundle | None = None) -> DeployPlan:
    """What deploying the bundle would do; asks the target and changes nothing there.

    `base`: what was deployed there last, as far as is known: then only the changes are told.
    """
    try:
        async with asyncio.TaskGroup() as group:
            described = group.create_task(describe(bundle.folder))
            offered = group.create_task(_offer(caller, job, bundle, base))
    except ExceptionGroup as failures:
        raise _first(failures) from failures
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
        provenance=described.result(),
    )


async def _offer(
    caller: Caller, job: Job, bundle: Bundle, base: Bundle | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The manifest as it was understood there, and the answer."""
    if base is not None:
        manifest = bundle.told_since(base)
        answer = await _offered(caller, job, bundle, manifest)
        if "unknown" not in answer:
            return manifest, answer
    manifest = await asyncio.to_thread(bundle.told_whole)
    return manifest, await _offered(caller, job, bundle, manifest)


async def _offered(
    caller: Caller, job: Job, bundle: Bundle, manifest: dict[str, Any]
) -> dict[str, Any]:
    answer: dict[str, Any] = await _asked(
        caller,
        "release_offer",
        timeout_s=_OFFER_WITHIN_S,
        workdir=job.workdir,
        digest=bundle.digest,
        manifest=manifest,
        **_surroundings(job),
    )
    return answer


async def deploy(
    caller: Caller,
    job: Job,
    bundle: Bundle,
    plan: DeployPlan,
    on_progress: OnProgress,
    *,
    inventory: str | None = None,
) -> Release:
    """Send what the plan says is missing, and make the bundle the current release.

    `inventory` is its digest, kept with the release. DeployError: the old release still is the
    current one, whole. Memory is flat in the size of what is sent.
    """
    sending = _Sending(caller, job, bundle, plan, on_progress)
    try:
        raw = None
        if plan.bytes_to_send <= INLINE_BYTES:
            raw = await asyncio.to_thread(sending.all_of_it)
        else:
            await sending.send()
        return await sending.commit(replace(plan.provenance, inventory=inventory), raw)
    except ExceptionGroup as failures:
        raise _first(failures) from failures
    finally:
        await sending.end()


async def _asked(caller: Caller, op: str, **args: Any) -> Any:
    """One call; DeployError where the op failed there, so that nothing was switched."""
    try:
        return await caller.call(op, **args)
    except CallFailed as exc:
        raise DeployError(exc.message, remedy=exc.remedy) from exc


def _first(failures: ExceptionGroup) -> Exception:
    """The failure that ended the others: the first OrchError, or else the first there is."""
    ours = failures.subgroup(OrchError)
    found: Exception = ours if ours is not None else failures
    while isinstance(found, ExceptionGroup):
        found = found.exceptions[0]
    return found


class _Sending:
    """One deploy under way."""

    def __init__(
        self, caller: Caller, job: Job, bundle: Bundle, plan: DeployPlan, on_progress: OnProgress
    ) -> None:
        self._caller = caller
        self._job = job
        self._bundle = bundle
        self._plan = plan
        self._on_progress = on_progress
        self._link = _Pace()
        self._sent = 0
        self._committed = False
        self._names: dict[str, Any] = {
            "workdir": job.workdir,
            "digest": bundle.digest,
            "deploy": next(_numbers),
        }

    def all_of_it(self) -> bytes | None:
        """All that is missing, as one piece; None where nothing is."""
        pieces = read_pieces(self._bundle, self._plan.missing, piece_bytes=PIECE_BYTES)
        return b"".join(piece for piece, _ in pieces) or None

    async def send(self) -> None:
        """Send what is missing, several pieces on their way at once."""
        pieces = read_pieces(self._bundle, self._plan.missing, piece_bytes=PIECE_BYTES)
        numbered = enumerate(pieces)
        turn = asyncio.Lock()
        async with asyncio.TaskGroup() as group:
            for _ in range(SENDERS):
                group.create_task(self._send_pieces(numbered, turn))

    async def _send_pieces(
        self, pieces: Iterator[tuple[int, tuple[bytes, int]]], turn: asyncio.Lock
    ) -> None:
        while True:
            async with turn:
                following = await asyncio.to_thread(next, pieces, None)
            if following is None:
                return
            number, (piece, content) = following
            packed = self._link.is_slow and wire.shrinks(piece)
            if packed:
                piece = await asyncio.to_thread(wire.deflate, piece)
            with self._link.carrying(len(piece)):
                await _asked(
                    self._caller,
                    "release_blobs",
                    timeout_s=_PIECE_WITHIN_S,
                    raw=piece,
                    number=number,
                    packed=packed,
                    **self._names,
                )
            self._sent += content
            self._tell("send", self._sent)

    async def commit(self, provenance: Provenance, raw: bytes | None) -> Release:
        """Have the release built, verified, set up and switched to."""
        answer = await _asked(
            self._caller,
            "release_commit",
            timeout_s=_SETUP_WITHIN_S if self._plan.setup else _COMMIT_WITHIN_S,
            on_progress=lambda news: self._tell(
                news["stage"], self._plan.bytes_to_send, news.get("line", "")
            ),
            raw=raw,
            manifest=self._plan.manifest,
            provenance=provenance.to_json(),
            **self._names,
            **_surroundings(self._job),
        )
        self._committed = True
        return Release(
            digest=self._bundle.digest,
            path=answer["path"],
            files=self._bundle.files,
            bytes=self._bundle.bytes,
        )

    async def end(self) -> None:
        """Where nothing was committed, have what was sent removed: else the next deploy does it."""
        if self._committed:
            return
        with contextlib.suppress(OrchError):
            await self._caller.call("release_abandon", timeout_s=_ABANDON_WITHIN_S, **self._names)

    def _tell(self, stage: str, sent: int, line: str = "") -> None:
        self._on_progress(
            DeployProgress(
                stage=stage,
                bytes_sent=sent,
                bytes_total=self._plan.bytes_to_send,
                bytes_per_s=self._link.progress(sent),
                line=line,
            )
        )


class _Pace:
    """How fast a link takes what is sent, by the time in which anything was on its way."""

    def __init__(self) -> None:
        self._now = asyncio.get_running_loop().time
        self._began = self._now()
        self._under_way = 0
        self._since = 0.0
        self._busy_s = 0.0
        self._arrived = 0

    @property
    def is_slow(self) -> bool:
        """Whether compressing pays; yes as long as nothing is known."""
        return self._arrived <= self._busy_s * FAST_BYTES_PER_S

    @contextlib.contextmanager
    def carrying(self, size: int) -> Iterator[None]:
        """While so many bytes are on their way."""
        if not self._under_way:
            self._since = self._now()
        self._under_way += 1
        try:
            yield
        finally:
            now = self._now()
            self._arrived += size
            self._busy_s += now - self._since
            self._since = now
            self._under_way -= 1

    def progress(self, sent: int) -> float:
        """Bytes per second since the beginning."""
        return sent / max(self._now() - self._began, 1e-3)


_numbers = itertools.count(1)


def _surroundings(job: Job) -> dict[str, Any]:
    """In what setup runs on the target."""
    folder = job.target.python_folder
    return {"env": dict(job.env), "path_first": [folder] if folder else []}


async def rollback(caller: Caller, job: Job, digest: str | None = None) -> dict[str, Any]:
    """Make an older release the current one: a named one (its start will do), or the one before.

    Value: `before`, `current`, `path`, `release` (its record). DeployError: nothing was changed.
    """
    answer: dict[str, Any] = await _asked(
        caller, "release_switch", timeout_s=_COMMIT_WITHIN_S, workdir=job.workdir, digest=digest
    )
    return answer


async def releases(caller: Caller, job: Job) -> dict[str, Any]:
    """Value: `current`, and `releases`, newest deploy first, each with its provenance."""
    answer: dict[str, Any] = await _asked(
        caller, "release_list", timeout_s=_OFFER_WITHIN_S, workdir=job.workdir
    )
    return answer


async def prune(
    caller: Caller, job: Job, *, protect: frozenset[str] = frozenset()
) -> dict[str, Any]:
    """Remove all but the job's newest `keep` releases; never the current one or one in use.

    `protect`: releases of runs that have not ended. Value: `removed`, `kept`, `environments`.
    """
    answer: dict[str, Any] = await _asked(
        caller,
        "release_prune",
        timeout_s=_COMMIT_WITHIN_S,
        workdir=job.workdir,
        keep=job.keep,
        protect=sorted(protect),
    )
    return answer
