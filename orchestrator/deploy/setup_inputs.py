"""What a package's setup is made of: the requirements file, and the files that it includes.

Owns which files those are. Their content makes the environment's name on the target, so that a
change of any of them makes it anew. Talks to no target.
"""

import os
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from orchestrator.core.errors import DeployError, UsageError
from orchestrator.core.inventory.nearest import near
from orchestrator.core.model import Job
from orchestrator.deploy.walk import Walk
from orchestrator.probe import manifest as wire

_PARSED = (".txt", ".in")
_INCLUDES = re.compile(r"^\s*(?:-r|-c|--requirement|--constraint)[ \t=]*([^\s#]+)", re.MULTILINE)
_LOCAL_LINE = re.compile(r"^\s*(?:-e\b|--editable\b|\.{1,2}(?:[/\[\s]|$)|file:)", re.MULTILINE)
_LOCAL_COMMAND = re.compile(
    r"\binstall\b[^;&|]*\s(?:-e|--editable|\.{1,2}(?=[/\[\s]|$))|\bsetup\.py\b"
)
_UNSUPPORTED = {
    "poetry.lock": "poetry export -o requirements.txt",
    "pdm.lock": "pdm export -o requirements.txt",
    "Pipfile.lock": "pipenv requirements > requirements.txt",
}
"""Lock files that neither pip nor uv installs, and what makes one that they do."""


def setup_of(job: Job, name: str, walk: Walk) -> dict[str, Any] | None:
    """A job's setup as it travels with the manifest; None where it has none.

    UsageError where a file that it needs is not shipped.
    """
    setup = job.setup
    if setup is None:
        return None
    told: dict[str, Any] = {
        "python": setup.python,
        "requirements": setup.requirements,
        "system_site_packages": setup.system_site_packages,
        "run": list(setup.run),
    }
    inside = {
        entry.path.removeprefix(f"{name}/"): entry.content
        for entry in walk.entries
        if entry.kind == wire.FILE and entry.path.startswith(f"{name}/")
    }
    included = _included(job.name, setup.requirements, inside, walk) if setup.requirements else []
    files = [one for one in (setup.requirements, *included) if one and one.endswith(_PARSED)]
    # What is installed from the release's own folder is of that release alone, and goes with it.
    of_package = any(map(_LOCAL_COMMAND.search, setup.run)) or any(
        _LOCAL_LINE.search(_read(walk, inside[one])) for one in files
    )
    told |= {"included": included} if included else {}
    return {**told, "of_package": True} if of_package else told


def _included(job: str, requirements: str, inside: dict[str, str], walk: Walk) -> list[str]:
    """Paths in the package of all other files that are read for the requirements."""
    key = f"jobs.{job}.setup.requirements"
    if requirements not in inside:
        why = f"{key} names {requirements}, which is not in the package"
        raise UsageError(
            why + (near(requirements, inside) or "."),
            remedy="Name a file relative to the package's folder that is not left out.",
        )
    base = posixpath.basename(requirements)
    if base in _UNSUPPORTED:
        raise UsageError(
            f"{key} names {requirements}, which neither pip nor uv installs.",
            remedy=f"Name what this makes of it: {_UNSUPPORTED[base]}",
        )
    if base == wire.UV_LOCK:
        project = posixpath.join(requirements, "../pyproject.toml")
        return [_needed(key, project, requirements, inside)]
    found: list[str] = []
    waiting = [requirements]
    while waiting and requirements.endswith(_PARSED):
        path = waiting.pop()
        for one in _named_in(_read(walk, inside[path])):
            needed = _needed(key, posixpath.join(posixpath.dirname(path), one), path, inside)
            if needed not in (requirements, *found):
                found.append(needed)
                waiting.append(needed)
    return sorted(found)


def _named_in(text: str) -> Iterator[str]:
    """What a requirements file includes from its own folder on; not what lies elsewhere."""
    for found in _INCLUDES.finditer(text):
        if "://" not in found[1] and not found[1].startswith("/"):
            yield found[1]


def _needed(key: str, path: str, by: str, inside: dict[str, str]) -> str:
    whole = posixpath.normpath(path)
    if whole not in inside:
        raise UsageError(
            f"{key}: {by} needs {whole}, which is not in the package{near(whole, inside) or '.'}",
            remedy="Put it there, or see that neither .gitignore nor `exclude:` leaves it out.",
        )
    return whole


def _read(walk: Walk, content: str) -> str:
    path = os.fsdecode(walk.sources[content].path)
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError as exc:
        raise DeployError(f"{path} cannot be read ({exc.strerror}).") from exc
