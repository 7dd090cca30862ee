"""What two jobs on one target may not have in common: a tmux session, a folder of releases.

Looks at raw values, as names.py does.
"""

import posixpath
from collections.abc import Iterator
from typing import Any

from orchestrator.core.inventory.document import Location


def shared_problems(
    jobs: dict[str, Any], targets: dict[str, list[str]]
) -> Iterator[tuple[Location, str]]:
    """Location and sentence of each session or folder that an earlier job has on the same target.

    `targets` is where each job runs, by its name. Jobs without a package put no release into their
    folder, and runs have folders of their own: they may have one folder.
    """
    first: dict[tuple[str, str, str], str] = {}
    for name, job in jobs.items():
        if not isinstance(job, dict):
            continue
        for key, value in _own(name, job):
            places = [(key, target, value) for target in targets.get(name, ())]
            taken = next((place for place in places if place in first), None)
            if taken is not None:
                yield ("jobs", name, key), _sentence(*taken, first[taken])
            first |= {place: name for place in places if place not in first}


def _own(name: str, job: dict[str, Any]) -> Iterator[tuple[str, str]]:
    workdir, session = job.get("workdir"), job.get("session")
    if isinstance(workdir, str) and job.get("package") is not None:
        yield "workdir", posixpath.normpath(workdir)
    if session is None or isinstance(session, str):
        yield "session", session or name


def _sentence(key: str, target: str, value: str, other: str) -> str:
    if key == "session":
        return f"{value} is the session of job {other} on {target} too; give it one of its own"
    return (
        f"{value} is the workdir of job {other} on {target} too; give it one of its own,"
        " since each would switch and prune the other's releases"
    )
