"""Where a release came from: commit, what was changed since, who sent it.

Owns the questions to git. A package that is in no repository has no commit, and that is said.
"""

import asyncio
import contextlib
import getpass
import socket
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.probe import manifest as wire

MAX_DIFF_BYTES = 1024 * 1024
MAX_UNTRACKED_CHARS = 100_000
"""Of all names; they are kept in the record of each release, and told with it."""
_MAX_STATUS_BYTES = 4 * 1024 * 1024
_GIT_WITHIN_S = 20.0
_GONE_WITHIN_S = 2.0
_ALL_CHANGES = ("--porcelain", "-z", "--untracked-files=all")


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """What is kept with a release about its making."""

    by: str
    """user@host."""
    commit: str | None = None
    branch: str | None = None
    dirty: bool | None = None
    """Whether the package differed from the commit; None where there is none."""
    untracked: tuple[str, ...] = ()
    """Files of the package that git does not know and does not ignore."""
    diff: bytes = b""
    inventory: str | None = None
    """Digest of the inventory."""

    def to_json(self) -> dict[str, Any]:
        """As it travels; the diff is packed."""
        return {
            "by": self.by,
            "commit": self.commit,
            "branch": self.branch,
            "dirty": self.dirty,
            "untracked": list(self.untracked),
            "inventory": self.inventory,
            "diff": wire.pack(self.diff) if self.diff else None,
            "diff_bytes": len(self.diff),
        }


async def describe(folder: str, *, inventory: str | None = None) -> Provenance:
    """The provenance of a package's folder as it is now; never fails for want of git."""
    by = f"{_user()}@{socket.gethostname()}"
    if not _in_repository(Path(folder)):
        return Provenance(by=by, inventory=inventory)
    head, status, diff = await asyncio.gather(
        _git(folder, 4096, "rev-parse", "HEAD", "--abbrev-ref", "HEAD"),
        _git(folder, _MAX_STATUS_BYTES, "status", *_ALL_CHANGES, "--", "."),
        _git(folder, MAX_DIFF_BYTES, "diff", "--binary", "HEAD", "--", "."),
    )
    if head is None or status is None:
        return Provenance(by=by, inventory=inventory)
    commit, _, branch = head.decode("utf-8", "replace").strip().partition("\n")
    changes = [item for item in status.decode("utf-8", "backslashreplace").split("\0") if item]
    return Provenance(
        by=by,
        commit=commit,
        branch=None if branch == "HEAD" else branch,
        dirty=bool(changes),
        untracked=tuple(_first(item[3:] for item in changes if item.startswith("?? "))),
        diff=diff or b"",
        inventory=inventory,
    )


def _first(names: Iterable[str]) -> Iterator[str]:
    """As many of the names as are kept."""
    left = MAX_UNTRACKED_CHARS
    for name in names:
        left -= len(name)
        if left < 0:
            return
        yield name


def _in_repository(folder: Path) -> bool:
    """Whether it is worth asking git; it looks for the same name."""
    return any((place / ".git").exists() for place in (folder, *folder.parents))


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a UID that passwd does not know
        return "unknown"


async def _git(folder: str, most_bytes: int, *words: str) -> bytes | None:
    """The first bytes of what git says; None where it is not there, fails, or does not answer."""
    try:
        child = await asyncio.create_subprocess_exec(
            "git", "-C", folder, "--no-optional-locks", *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
    except OSError:
        return None
    assert child.stdout is not None
    said = bytearray()
    try:
        async with asyncio.timeout(_GIT_WITHIN_S):
            # A changed file of weights makes a diff of its size.
            while len(said) <= most_bytes and (piece := await child.stdout.read(65536)):
                said += piece
            if len(said) <= most_bytes:
                await child.wait()
    except TimeoutError:
        return None
    finally:
        if child.returncode is None:
            child.kill()
            with contextlib.suppress(TimeoutError):  # a program of its own may hold the pipe
                await asyncio.wait_for(child.communicate(), _GONE_WITHIN_S)
    failed = len(said) <= most_bytes and child.returncode != 0
    return None if failed else bytes(said[:most_bytes])
