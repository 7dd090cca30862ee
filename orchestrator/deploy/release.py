"""Deploys a bundle as a release: send what the plan says is missing, verify and switch there.

Owns the daemon's side of a deploy, rollback and prune. What the target has at every instant,
the old release or the new one, is the far side's promise (probe/release.py).
"""

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from orchestrator.core.errors import OrchError
from orchestrator.core.model import Job, Release
from orchestrator.deploy.bundle import Bundle
from orchestrator.deploy.pace import Pace
from orchestrator.deploy.pieces import read_pieces
from orchestrator.deploy.plan import (
    OFFER_WITHIN_S,
    Caller,
    DeployPlan,
    asked,
    first_of,
    surroundings,
)
from orchestrator.deploy.provenance import Provenance
from orchestrator.probe import manifest as wire

PIECE_BYTES = 1024 * 1024
FIRST_PIECE_BYTES = 256 * 1024
"""While it is not known yet how fast the link is, and so whether to compress."""
SENDERS = 4
INLINE_BYTES = 256 * 1024
"""So little travels with the commit itself."""

_PIECE_WITHIN_S = 120.0
_ABANDON_WITHIN_S = 10.0
_COMMIT_WITHIN_S = 600.0
_SETUP_WITHIN_S = 7200.0


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
        raise first_of(failures) from failures
    finally:
        await sending.end()


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
        self._link = Pace()
        self._sent = 0
        self._committed = False
        self._names: dict[str, Any] = {
            "workdir": job.workdir,
            "digest": bundle.digest,
            "deploy": next(_numbers),
        }

    def all_of_it(self) -> bytes | None:
        """All that is missing, as one piece; None where nothing is."""
        pieces = read_pieces(self._bundle, self._plan.missing, itertools.repeat(PIECE_BYTES))
        return b"".join(piece for piece, _ in pieces) or None

    async def send(self) -> None:
        """Send what is missing, several pieces on their way at once."""
        sizes = itertools.chain([FIRST_PIECE_BYTES] * SENDERS, itertools.repeat(PIECE_BYTES))
        pieces = read_pieces(self._bundle, self._plan.missing, sizes)
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
                await asked(
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
        answer = await asked(
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
            **surroundings(self._job),
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


_numbers = itertools.count(1)


async def rollback(caller: Caller, job: Job, digest: str | None = None) -> dict[str, Any]:
    """Make an older release the current one: a named one (its start will do), or the one before.

    Value: `before`, `current`, `path`, `release` (its record). DeployError: nothing was changed.
    UsageError: neither, since there is no such release.
    """
    answer: dict[str, Any] = await asked(
        caller, "release_switch", timeout_s=_COMMIT_WITHIN_S, workdir=job.workdir, digest=digest
    )
    return answer


async def releases(caller: Caller, job: Job) -> dict[str, Any]:
    """Value: `current`, and `releases`, newest deploy first, each with its provenance."""
    answer: dict[str, Any] = await asked(
        caller, "release_list", timeout_s=OFFER_WITHIN_S, workdir=job.workdir
    )
    return answer


async def prune(
    caller: Caller, job: Job, *, protect: frozenset[str] = frozenset()
) -> dict[str, Any]:
    """Remove all but the job's newest `keep` releases; never the current one or one in use.

    `protect`: releases of runs that have not ended. Value: `removed`, `kept`, `environments`.
    """
    answer: dict[str, Any] = await asked(
        caller,
        "release_prune",
        timeout_s=_COMMIT_WITHIN_S,
        workdir=job.workdir,
        keep=job.keep,
        protect=sorted(protect),
    )
    return answer
