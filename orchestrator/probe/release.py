"""Ops that deploy a release: offer, blobs, commit.

Owns what the target has: the old release or the new one, whole, at every instant. A release is
gathered in `releases/.incoming-<digest>`, verified, renamed to `releases/<digest>`, given its
environment, marked by `release.json`, and only then `current` is switched, by one rename.
Stdlib only and Python 3.10.
"""

from __future__ import annotations

import functools
import os
import time
from typing import TYPE_CHECKING, Any

from . import history, setup
from . import manifest as wire
from .tree import Builder, Stock, sha256_of
from .workdir import Workdir, claim, give_up, sync_folder, told

if TYPE_CHECKING:
    from collections.abc import Callable

    Args = dict[str, Any]
    Progress = Callable[[Args], None]

_STOCK_RELEASES = 4
"""How many older releases are looked through for unchanged files."""

_DIFF = "changes.diff"


@functools.lru_cache(maxsize=2)
def _understood(packed: str, digest: str) -> wire.Manifest:
    """The manifest of an offer, kept for its commit."""
    encoded = wire.unpack(packed)
    if wire.digest_of(encoded) != digest:
        raise wire.ManifestError("the manifest is not the one that the digest names")
    return wire.decode(encoded)


def _stock(workdir: Workdir, digest: str) -> Stock:
    """The release itself where it is there, then `current`, then the newest others.

    No half release of another digest: the claim removes it.
    """
    names = [
        name for name in workdir.digests() if name == digest or workdir.record(name) is not None
    ]
    newest = sorted(names, key=lambda name: os.stat(workdir.release(name)).st_mtime, reverse=True)
    first = [name for name in (digest, workdir.current()) if name in names]
    order = dict.fromkeys([*first, *newest])
    return Stock(workdir.release(name) for name in list(order)[:_STOCK_RELEASES])


@told
def offer(args: Args, _progress: Progress) -> Args:
    """What of a release is missing here; changes nothing."""
    workdir = Workdir(args["workdir"])
    manifest = _understood(args["entries"], args["digest"])
    digest = args["digest"]
    stock = _stock(workdir, digest)
    blobs = os.path.join(os.fsencode(workdir.incoming(digest)), b"blobs")
    paths = {entry.content: entry for entry in manifest.entries if entry.kind == wire.FILE}
    missing = [
        sha
        for sha in wire.blobs_of(manifest.entries)
        if stock.same_path(paths[sha]) is None
        and stock.anywhere(sha) is None
        and not _arrived(os.path.join(blobs, sha.encode()), sha)
    ]
    env = setup.digest_of(manifest, setup.Surroundings.of(args))
    return {
        "missing": missing,
        "current": workdir.current(),
        "exists": workdir.record(digest) is not None,
        "setup": env is not None and not setup.is_complete(workdir, env),
    }


def _arrived(path: bytes, sha: str) -> bool:
    """Whether a deploy that was cut short had sent this blob whole."""
    return os.path.isfile(path) and sha256_of(path) == sha


@told
def blobs(args: Args, _progress: Progress) -> Args:
    """Write parts of files; they may come in any order, and again."""
    incoming = claim(Workdir(args["workdir"]), args["digest"], args["deploy"])
    for sha, offset, content in wire.records(wire.unpack(args["data"])):
        path = os.path.join(incoming, "blobs", sha)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            written = 0
            while written < len(content):
                written += os.pwrite(fd, content[written:], offset + written)
        finally:
            os.close(fd)
    return {}


@told
def commit(args: Args, progress: Progress) -> Args:
    """Build, verify, set up and switch; where it fails, `current` is what it was."""
    workdir = Workdir(args["workdir"])
    manifest = _understood(args["entries"], args["digest"])
    digest = args["digest"]
    incoming = claim(workdir, digest, args["deploy"])
    before = workdir.current()
    with workdir.exclusively():
        final = workdir.release(digest)
        standing = os.path.isdir(final)
        tree = final if standing else os.path.join(incoming, "tree")
        builder = Builder(tree, os.path.join(incoming, "blobs"), _stock(workdir, digest))
        progress({"stage": "verify"})
        builder.build(manifest)
        package = os.path.join(tree, manifest.name)
        os.makedirs(package, exist_ok=True)
        _link_shared(workdir, package, manifest)
        if not standing:
            os.rename(tree, final)
            sync_folder(workdir.releases)
        package = os.path.join(final, manifest.name)
        setup_ran = _set_up(workdir, package, manifest, setup.Surroundings.of(args), progress)
        _keep_record(workdir, digest, manifest, args.get("provenance") or {})
        workdir.switch(digest)
    give_up(workdir, digest, args["deploy"])
    return {
        "path": package,
        "switched": before != digest,
        "verified": len(manifest.entries),
        "linked": builder.linked,
        "setup_ran": setup_ran,
    }


def _set_up(
    workdir: Workdir,
    package: str,
    manifest: wire.Manifest,
    around: setup.Surroundings,
    progress: Progress,
) -> bool:
    digest = setup.digest_of(manifest, around)
    if digest is None:
        return False
    ran = setup.ensure(workdir, digest, package, manifest, around, progress)
    _link(f"../../../env/{digest}", os.path.join(package, ".venv"))
    return ran


def _link_shared(workdir: Workdir, package: str, manifest: wire.Manifest) -> None:
    """Link the folders that outlive releases, by relative paths: a workdir may be moved."""
    for name in manifest.shared:
        os.makedirs(os.path.join(workdir.shared, name), exist_ok=True)
        link = os.path.join(package, name)
        os.makedirs(os.path.dirname(link), exist_ok=True)
        depth = 3 + name.count("/")
        _link("/".join([*[".."] * depth, "shared", name]), link)


def _link(target: str, path: str) -> None:
    """A link that changes by one rename; OSError where a folder stands in its place."""
    if os.path.islink(path) and os.readlink(path) == target:
        return
    fresh = f"{path}.orch-new"
    if os.path.lexists(fresh):
        os.unlink(fresh)
    os.symlink(target, fresh)
    os.rename(fresh, path)


def _keep_record(
    workdir: Workdir, digest: str, manifest: wire.Manifest, provenance: dict[str, Any]
) -> None:
    """The mark of a whole release, with where it came from; a diff lies beside it as a file."""
    diff = provenance.pop("diff", None)
    path = os.path.join(workdir.release(digest), _DIFF)
    if diff:
        with open(path, "wb") as file:
            file.write(wire.unpack(diff))
    elif os.path.exists(path):
        os.unlink(path)
    record = {
        "digest": digest,
        "name": manifest.name,
        "at": time.time(),
        "files": len(manifest.entries),
        "bytes": sum(entry.size for entry in manifest.entries if entry.kind == wire.FILE),
        "provenance": provenance,
    }
    workdir.write_record(digest, record)


@told
def abandon(args: Args, _progress: Progress) -> Args:
    """Remove what was gathered for a release that will not be committed."""
    give_up(Workdir(args["workdir"]), args["digest"], args["deploy"])
    return {}


OPS = {
    "release_abandon": abandon,
    "release_offer": offer,
    "release_blobs": blobs,
    "release_commit": commit,
    **history.OPS,
}
