"""Ops on the releases that are there: list, switch, prune.

Owns which release is in use, and so is never removed. Stdlib only and Python 3.10.
"""

from __future__ import annotations

import contextlib
import os
import re
from typing import TYPE_CHECKING, Any

from . import procfs
from .errors import OpError
from .freshness import changed_since
from .listing import held
from .refusals import told
from .workdir import Workdir

if TYPE_CHECKING:
    from collections.abc import Callable

    Args = dict[str, Any]
    Progress = Callable[[Args], None]


def _whole(workdir: Workdir) -> list[dict[str, Any]]:
    """The records of all releases that were deployed whole, newest first."""
    found = [workdir.record(digest) for digest in workdir.digests()]
    records: list[dict[str, Any]] = [record for record in found if record is not None]
    return sorted(records, key=lambda record: float(record["at"]), reverse=True)


def _in_use(workdir: Workdir) -> set[str]:
    """Releases that a living program works in, or imports from."""
    pattern = re.compile(re.escape(os.path.realpath(workdir.releases)) + r"/([^/:\0]+)")
    used: set[str] = set()
    for found in procfs.every():
        places = [*procfs.environment(found.pid).values()]
        with contextlib.suppress(OSError):
            places.append(os.readlink(f"/proc/{found.pid}/cwd"))
        for place in places:
            used.update(pattern.findall(place))
    return used


@told
def list_releases(args: Args, _progress: Progress) -> Args:
    """All whole releases, newest deploy first."""
    workdir = Workdir(args["workdir"])
    used = _in_use(workdir)
    return {
        "current": workdir.current(),
        "releases": [record | {"in_use": record["digest"] in used} for record in _whole(workdir)],
    }


@told
def switch(args: Args, _progress: Progress) -> Args:
    """Point `current` at another whole release: one by (the start of) its name, or the one before.

    The one before is the release whose latest deploy was the last before that of the current one.
    """
    workdir = Workdir(args["workdir"])
    with workdir.exclusively():
        before = workdir.current()
        record = _chosen(workdir, args.get("digest"), before)
        digest = record["digest"]
        changed = _changed(workdir, digest)
        if changed:
            raise OpError(
                "DeployError",
                f"release {digest} is not what was deployed: {', '.join(changed[:5])} changed"
                f" since; {workdir.unchanged()}.",
                "Deploy that code again, which repairs it.",
            )
        workdir.switch(digest)
    path = os.path.join(workdir.release(digest), record["name"])
    return {"current": digest, "before": before, "path": path, "release": record}


def _chosen(workdir: Workdir, wanted: str | None, current: str | None) -> dict[str, Any]:
    records = _whole(workdir)
    names = ", ".join(record["digest"] for record in records) or "none"
    if wanted is None:
        at = next((i for i, record in enumerate(records) if record["digest"] == current), -1)
        older = records[at + 1 :]
        if not older:
            others = ", ".join(one["digest"] for one in records if one["digest"] != current)
            raise OpError(
                "UsageError",
                f"there is no release before the current one in {workdir.path}.",
                f"Name one: {others}." if others else "It has no other; deploy one.",
            )
        return older[0]
    matching = [record for record in records if record["digest"].startswith(wanted)]
    if len(matching) != 1:
        what = "no release" if not matching else "more than one release"
        raise OpError(
            "UsageError",
            f"{what} in {workdir.path} is called {wanted}.",
            f"`orch releases` lists them: {names}.",
        )
    return matching[0]


def _changed(workdir: Workdir, digest: str) -> list[str]:
    """Files of a release that are not any more what was verified."""
    found = held(workdir.release(digest))
    return [] if found is None else sorted(changed_since(found))


@told
def prune(args: Args, _progress: Progress) -> Args:
    """Remove all but the newest `keep` releases; never the current one or one in use.

    `protect` names releases of runs that may start again.
    """
    workdir = Workdir(args["workdir"])
    with workdir.exclusively():
        workdir.clean()
        records = _whole(workdir)
        newest = {record["digest"] for record in records[: args["keep"]]}
        spared = newest | {workdir.current()} | _in_use(workdir) | set(args.get("protect") or ())
        removed = [digest for digest in workdir.digests() if digest not in spared]
        for digest in removed:
            workdir.discard(workdir.release(digest))
        environments = _prune_environments(workdir)
    kept = [record["digest"] for record in records if record["digest"] not in removed]
    return {"removed": removed, "kept": kept, "environments": environments}


def _prune_environments(workdir: Workdir) -> list[str]:
    """Remove the environments that no release is linked to any more."""
    needed: set[str] = set()
    for record in _whole(workdir):
        link = os.path.join(workdir.release(record["digest"]), record["name"], ".venv")
        with contextlib.suppress(OSError):
            needed.add(os.path.basename(os.readlink(link)))
    try:
        names = os.listdir(workdir.environments)
    except FileNotFoundError:
        return []
    removed = [
        name
        for name in names
        if name not in needed and os.path.isdir(os.path.join(workdir.environments, name))
    ]
    for name in removed:
        workdir.discard(os.path.join(workdir.environments, name))
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(workdir.environments, f"{name}.log"))
    return removed


OPS = {
    "release_list": list_releases,
    "release_switch": switch,
    "release_prune": prune,
}
