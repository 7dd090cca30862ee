"""Ops that deploy a release: offer, blobs, commit.

Owns what the target has: the old release or the new one, whole, at every instant. A release is
gathered in `releases/.incoming-<digest>`, verified, renamed to `releases/<digest>`, given its
environment, marked by `release.json`, and only then `current` is switched, by one rename.
Stdlib only and Python 3.10.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from typing import TYPE_CHECKING, Any

from . import blobs, history, intake, setup, spare
from . import listing as listings
from . import manifest as wire
from .claims import claim, give_up
from .freshness import changed_since_ahead, changed_since_offer, look_ahead
from .listing import Listing, sha256_of
from .refusals import told
from .stock import Stock
from .tree import Builder
from .workdir import RECORD, Workdir, sync_folder

if TYPE_CHECKING:
    from collections.abc import Callable

    from .stock import Look

    Args = dict[str, Any]
    Progress = Callable[[Args], None]

_STOCK_RELEASES = 3
"""How many older releases are looked through for files, besides the one closest at hand."""


def _understood(workdir: Workdir, args: Args) -> Listing:
    """The listing that an op was told, by what is different from a release here or whole."""
    told_of = args["manifest"]
    base = told_of.get("base")
    held = listings.held(workdir.release(base)) if base is not None else None
    return listings.understood(workdir.path, args["digest"], told_of, held)


def _stock(workdir: Workdir, digest: str, look: Look, twin: str | None) -> Stock:
    """The release itself where it is there, or `current`; then the newest others.

    No half release of another digest: the claim removes it.
    """
    current = workdir.current()
    first = digest if os.path.isdir(workdir.release(digest)) else current
    base = listings.held(workdir.release(first)) if first is not None else None
    names = [name for name in workdir.digests() if name not in (digest, first)]
    newest = sorted(names, key=lambda name: _made_at(workdir.release(name)), reverse=True)
    others = [current] if current is not None and current != first else []
    others += [name for name in newest if name != current]
    folders = [workdir.release(name) for name in others[:_STOCK_RELEASES]]
    return Stock(base, folders, look, twin)


def _made_at(release: str) -> float:
    """When a release got its newest name; 0 where it is gone since it was listed."""
    try:
        return os.stat(release).st_mtime
    except FileNotFoundError:
        return 0.0


def _twin(workdir: Workdir, digest: str) -> str | None:
    """A twin of the current release, of which a new release can be made."""
    current = workdir.current()
    if current is None or os.path.isdir(workdir.release(digest)):
        return None
    return spare.path_of(workdir, current) if listings.held(workdir.release(current)) else None


@told
def look(args: Args, _progress: Progress) -> Args:
    """Look what of the current release has changed, for the offer that will follow."""
    workdir = Workdir(args["workdir"])
    current = workdir.current()
    base = listings.held(workdir.release(current)) if current is not None else None
    if current is not None and base is not None:
        twin = spare.path_of(workdir, current)
        look_ahead(base, os.fsencode(twin) if twin is not None else None)
    return {}


@told
def offer(args: Args, _progress: Progress) -> Args:
    """What of a release is missing here; changes nothing.

    `unknown` where the manifest was told by a release that is not here: it has to come whole.
    """
    workdir = Workdir(args["workdir"])
    try:
        listing = _understood(workdir, args)
    except wire.ManifestError:
        if "base" not in args["manifest"]:
            raise
        return {"unknown": True}
    digest = args["digest"]
    stock = _stock(workdir, digest, changed_since_ahead, _twin(workdir, digest))
    before = os.path.join(os.fsencode(workdir.incoming(digest)), b"blobs")
    env = setup.digest_of(listing, setup.Surroundings.of(args))
    return {
        "missing": [
            content
            for content in stock.lacking(listing)
            if stock.anywhere(content) is None
            and not _arrived(blobs.place(before, content), content)
        ],
        "current": workdir.current(),
        "exists": workdir.record(digest) is not None,
        "setup": env is not None and not setup.is_complete(workdir, env),
    }


def _arrived(path: bytes, sha: str) -> bool:
    """Whether a deploy that was cut short had sent this blob whole."""
    try:
        return os.path.isfile(path) and sha256_of(path) == sha
    except FileNotFoundError:
        return False  # another deploy of this release has just been committed


@told
def take_piece(args: Args, _progress: Progress) -> Args:
    """Write a piece of what is missing; pieces may come in any order, each has its number."""
    incoming = claim(Workdir(args["workdir"]), args["digest"], args["deploy"])
    data = args["data"]
    chunk = wire.inflate(data) if args["packed"] else data
    intake.of(incoming, args["deploy"]).take(args["number"], chunk)
    return {}


@told
def commit(args: Args, progress: Progress) -> Args:
    """Build, verify, set up and switch; where it fails, `current` is what it was.

    `data` may hold all that is missing, where that is little.
    """
    workdir = Workdir(args["workdir"])
    listing = _understood(workdir, args)
    digest, deploy = args["digest"], args["deploy"]
    incoming = claim(workdir, digest, deploy)
    arriving = intake.of(incoming, deploy)
    if "data" in args:
        arriving.take(0, args["data"])
    before = workdir.current()
    with workdir.exclusively():
        builder = _begun(workdir, digest, incoming, arriving)
        progress({"stage": "verify"})
        setup_ran = _completed(workdir, listing, builder, args, progress)
        workdir.switch(digest)
    intake.forget(incoming, deploy)
    give_up(workdir, digest, deploy)
    spare.prepare(workdir, digest)
    return {
        "path": os.path.join(workdir.release(digest), listing.manifest.name),
        "switched": before != digest,
        "verified": len(listing.entries),
        "linked": builder.linked,
        "setup_ran": setup_ran,
    }


def _begun(workdir: Workdir, digest: str, incoming: str, arriving: intake.Intake) -> Builder:
    """What builds a release: where it stands already, in a twin of the current one, or anew."""
    final = workdir.release(digest)
    standing = os.path.isdir(final)
    tree = final if standing else os.path.join(incoming, "tree")
    if not standing:
        shutil.rmtree(tree, ignore_errors=True)  # of a commit that was killed
    twin = _twin(workdir, digest)
    if twin is not None:
        os.rename(twin, tree)
    stock = _stock(workdir, digest, changed_since_offer, tree if twin is not None else None)
    came = os.path.join(incoming, "blobs")
    return Builder(tree, came, arriving.verified(), stock, is_twin=twin is not None)


def _completed(
    workdir: Workdir, listing: Listing, builder: Builder, args: Args, progress: Progress
) -> bool:
    """Build a release, give it its name, its environment and its mark; whether setup ran."""
    manifest, digest = listing.manifest, args["digest"]
    tree, final = builder.root, workdir.release(digest)
    builder.build(listing)
    package = os.path.join(tree, manifest.name)
    os.makedirs(package, exist_ok=True)
    _link_shared(workdir, package, manifest)
    provenance = args.get("provenance") or {}
    if manifest.setup is None:
        # Whole already: the mark is there before the release has its name.
        builder.sync(*_keep_record(tree, digest, listing, provenance))
    else:
        builder.sync()
    if tree != final:
        os.rename(tree, final)
    listings.settle(final, listing, builder.index)
    if manifest.setup is None:
        return False
    sync_folder(workdir.releases)
    package = os.path.join(final, manifest.name)
    ran = _set_up(workdir, package, listing, setup.Surroundings.of(args), progress)
    builder.sync(*_keep_record(final, digest, listing, provenance))
    return ran


def _set_up(
    workdir: Workdir,
    package: str,
    listing: Listing,
    around: setup.Surroundings,
    progress: Progress,
) -> bool:
    digest = setup.digest_of(listing, around)
    if digest is None:
        return False
    ran = setup.ensure(workdir, digest, package, listing.manifest, around, progress)
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
    release: str, digest: str, listing: Listing, provenance: dict[str, Any]
) -> list[str]:
    """The mark of a whole release, with where it came from; a diff lies beside it as a file.

    The files that were written, to be synced.
    """
    diff = provenance.pop("diff", None)
    path = os.path.join(release, wire.CHANGES_FILE)
    written = [path] if diff else []
    if diff:
        with open(path, "wb") as file:
            file.write(wire.unpack(diff))
    elif os.path.exists(path):
        os.unlink(path)
    record = {
        "digest": digest,
        "name": listing.manifest.name,
        "at": time.time(),
        "files": len(listing.entries),
        "bytes": sum(entry.size for entry in listing.files()),
        "provenance": provenance,
    }
    mark = os.path.join(release, RECORD)
    with open(f"{mark}.new", "w", encoding="ascii") as file:
        file.write(json.dumps(record))
    os.rename(f"{mark}.new", mark)
    return [*written, mark]


@told
def abandon(args: Args, _progress: Progress) -> Args:
    """Remove what was gathered for a release that will not be committed."""
    workdir = Workdir(args["workdir"])
    intake.forget(workdir.incoming(args["digest"]), args["deploy"])
    give_up(workdir, args["digest"], args["deploy"])
    return {}


OPS = {
    "release_abandon": abandon,
    "release_look": look,
    "release_offer": offer,
    "release_blobs": take_piece,
    "release_commit": commit,
    **history.OPS,
}
