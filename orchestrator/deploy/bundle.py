"""Turns a package's folder into a bundle: what would be shipped, and the digest of all of it.

Owns what is left out and what is refused. Talks to no target.
"""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.core.errors import DeployError, UsageError
from orchestrator.core.model import Job
from orchestrator.core.starter import SCHEMA_NAME
from orchestrator.deploy.hashes import HashCache, Source
from orchestrator.deploy.ignore import Ignore, only
from orchestrator.deploy.setup_inputs import setup_of
from orchestrator.deploy.walk import OnUnread, Walk
from orchestrator.probe import manifest as wire

MAX_FILES = 100_000
MAX_TOLD_BYTES = 6_600_000
"""Of the packed manifest; its frame has 8 MiB, and carries what was changed since the commit."""
_MAX_CHANGES_BYTES = 1024 * 1024
"""Told by what is different, line by line; more is told whole, packed."""
_TAKEN = frozenset({wire.WHEELS, wire.CHANGES_FILE, "manifest", "files.bin", "release.json"})
"""What lies beside a package in its release."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """A package as it is now, ready to be sent."""

    digest: str
    manifest: wire.Manifest
    lines: frozenset[str] = field(repr=False)
    """The entries as lines of the manifest's canonical text."""
    sources: dict[str, Source] = field(repr=False)
    """By SHA-256."""
    folder: str

    @property
    def name(self) -> str:
        """Of the package; the release's inner folder."""
        return self.manifest.name

    @property
    def files(self) -> int:
        """Number of files, links and empty folders."""
        return len(self.manifest.entries)

    @property
    def bytes(self) -> int:
        """Of all files together."""
        return sum(e.size for e in self.manifest.entries if e.kind == wire.FILE)

    def told_whole(self) -> dict[str, Any]:
        """The manifest as it travels to a target that has nothing of it.

        DeployError where it is too large for that: names that do not compress.
        """
        packed = wire.pack(wire.join(self.manifest.header(), self.lines))
        if len(packed) > MAX_TOLD_BYTES:
            raise _too_many(self.folder, self.files, "with names so long that they cannot be told")
        return {"whole": packed}

    def told_since(self, base: "Bundle") -> dict[str, Any] | None:
        """The manifest as it travels to a target that has the release of another bundle.

        None where too much is different for that.
        """
        gone, new = base.lines - self.lines, self.lines - base.lines
        if sum(map(len, gone)) + sum(map(len, new)) > _MAX_CHANGES_BYTES:
            return None
        return {
            "base": base.digest,
            "header": self.manifest.header(),
            "drop": [entry.path for entry in wire.entries_of(gone)],
            "add": sorted(new),
        }


def collect(
    job: Job,
    *,
    cache: HashCache,
    now: float,
    on_unread: OnUnread = lambda _: None,
    inventory: Path | None = None,
) -> Bundle:
    """The bundle of a job's package; DeployError names everything that cannot be shipped.

    UsageError where its setup needs what is not there. `inventory` is the one in use: it says how
    a package is run and is no part of it. `now` is unix seconds, taken before the call. Blocks:
    hashes what `cache` does not know, and says before it does how many bytes that is.
    """
    if job.package is None:
        raise DeployError(
            f"job {job.name} has no package to deploy.",
            remedy="Name its folder under `package:` in the inventory.",
        )
    walk = Walk(cache, now, on_unread)
    name = Path(job.package).name
    if name in _TAKEN:
        raise UsageError(
            f"jobs.{job.name}.package: a package cannot be called {name}, as a release keeps a"
            " file of its own by that name.",
            remedy="Give its folder another name.",
        )
    package = os.fsencode(job.package)
    shared = tuple(sorted(job.shared))
    ours = _of_inventory(inventory, job.package)
    exclude = (*ours, *job.exclude, *map(only, shared))
    walk.tree(package, name, Ignore.of(package, exclude, cache.verdicts))
    if job.wheelhouse is not None:
        walk.tree(os.fsencode(job.wheelhouse), wire.WHEELS, Ignore.none())
    walk.refuse_if_needed(job)
    setup = setup_of(job, name, walk)
    manifest = wire.Manifest(name, tuple(walk.entries), setup, shared)
    encoded = wire.join(manifest.header(), walk.lines)
    if len(walk.entries) > MAX_FILES or len(encoded) > wire.MAX_MANIFEST_BYTES:
        raise _too_many(job.package, len(walk.entries), f"and at most {MAX_FILES} are shipped")
    return Bundle(
        digest=wire.digest_of(encoded),
        manifest=manifest,
        lines=frozenset(walk.lines),
        sources=walk.sources,
        folder=job.package,
    )


def _too_many(package: str, files: int, why: str) -> DeployError:
    """The refusal of a package that is too large to tell of."""
    return DeployError(
        f"the package {package} has {files} files, {why}.",
        remedy="Name what the job does not need in .gitignore or under `exclude:`.",
    )


def _of_inventory(inventory: Path | None, package: str) -> list[str]:
    """Patterns of the inventory and its schema, where the package's folder holds them."""
    root = Path(package).resolve()
    if inventory is None or not inventory.is_relative_to(root):
        return []
    both = (inventory, inventory.with_name(SCHEMA_NAME))
    return [only(path.relative_to(root).as_posix()) for path in both]
