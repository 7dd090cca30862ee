"""What a package's setup is made of: its requirements, and the files that it otherwise names.

Owns which files those are. Their content makes the environment's name on the target, so that a
change of any of them makes it anew. Talks to no target.
"""

import os
import posixpath
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from orchestrator.core.errors import DeployError, UsageError
from orchestrator.core.inventory.nearest import near
from orchestrator.core.model import Job
from orchestrator.deploy.local_installs import (
    asked_by,
    commands_of,
    included_by,
    is_local_command,
    is_local_line,
    lines_of,
)
from orchestrator.deploy.walk import Walk
from orchestrator.probe import manifest as wire

_PARSED = (".txt", ".in")
_MOST_LINKS = 40
"""As Linux has it: more than these in one path are a circle."""
_LOCAL_LOCKED = re.compile(r'^source = \{ (?:editable|directory|path) = "(?!\."|/)', re.MULTILINE)
"""What uv.lock has of the package's own folder, the project itself left out."""
_UNSUPPORTED = {
    "poetry.lock": "poetry export -o requirements.txt",
    "pdm.lock": "pdm export -o requirements.txt",
    "Pipfile.lock": "pipenv requirements > requirements.txt",
}
"""Lock files that neither pip nor uv installs, and what makes one that they do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Package:
    """What of the package is shipped."""

    files: dict[str, str]
    """SHA-256 by path."""
    links: dict[str, str]
    """Target by path."""
    walk: Walk

    @classmethod
    def of(cls, name: str, walk: Walk) -> Self:
        files: dict[str, str] = {}
        links: dict[str, str] = {}
        for entry in walk.entries:
            if entry.path.startswith(f"{name}/") and entry.kind != wire.FOLDER:
                kind = files if entry.kind == wire.FILE else links
                kind[entry.path.removeprefix(f"{name}/")] = entry.content
        return cls(files=files, links=links, walk=walk)

    def landing(self, path: str) -> str:
        """Where a path ends when all links on it are followed."""
        at, followed = "", 0
        waiting = path.split("/")[::-1]
        while waiting:
            here = posixpath.normpath(posixpath.join(at, waiting.pop()))
            if here in self.links and followed < _MOST_LINKS:
                followed += 1
                waiting += self.links[here].split("/")[::-1]
            else:
                at = "" if here == "." else here
        return at

    def place(self, path: str) -> str:
        """The one path of those that name the same file or link."""
        return posixpath.join(self.landing(posixpath.dirname(path)), posixpath.basename(path))

    def called(self, place: str) -> str:
        """A path for a sentence."""
        return f"{place} (a link to {self.landing(place)})" if place in self.links else place

    def text(self, file: str) -> str:
        path = os.fsdecode(self.walk.sources[self.files[file]].path)
        try:
            return Path(path).read_text(encoding="utf-8", errors="replace")
        except OSError as exc:
            raise DeployError(f"{path} cannot be read ({exc.strerror}).") from exc


@dataclass(slots=True, kw_only=True)
class _Inputs:
    """What was found so far."""

    package: _Package
    files: set[str]
    local: bool = False
    """Whether anything is installed from the release's own folder."""
    missing: list[tuple[str, str]]
    """What a requirements file includes and is not shipped, after that file."""

    def read(self, first: str) -> None:
        """Take a requirements file that is shipped, and all that it includes."""
        package = self.package
        places = [package.place(first)]
        for place in places:  # grows on the way
            file = package.landing(place)
            self.files.add(file)
            if not place.endswith(_PARSED):
                continue
            for line in lines_of(package.text(file)):
                self.local = self.local or is_local_line(line)
                for name in included_by(line):
                    one = package.place(posixpath.join(posixpath.dirname(place), name))
                    if package.landing(one) not in package.files:
                        self.missing.append((place, one))
                    elif one not in places:
                        places.append(one)

    def take_command(self, command: list[str]) -> None:
        """Take the files that a command of setup names."""
        self.local = self.local or is_local_command(command)
        asked = asked_by(command)
        for word in (*command, *asked):
            file = "" if word.startswith("/") else self.package.landing(word)
            if file not in self.package.files:
                # Made on the way, or from another folder on: nobody knows of what.
                self.local = self.local or (word in asked and word.endswith(_PARSED))
            elif word.endswith(_PARSED):
                self.read(word)
            else:
                self.files.add(file)


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
    inputs = _Inputs(package=_Package.of(name, walk), files=set(), missing=[])
    if setup.requirements:
        _take_requirements(f"jobs.{job.name}.setup.requirements", setup.requirements, inputs)
    for line in setup.run:
        for command in commands_of(line):
            inputs.take_command(command)
    included = sorted(inputs.files - {setup.requirements})
    told |= {"included": included} if included else {}
    # What is installed from the release's own folder is of that release alone, and goes with it.
    return {**told, "of_package": True} if inputs.local or inputs.missing else told


def _take_requirements(key: str, requirements: str, inputs: _Inputs) -> None:
    """Take the requirements file; UsageError where it, or what it includes, cannot be used."""
    package = inputs.package
    if package.landing(requirements) not in package.files:
        why = f"{key} names {package.called(requirements)}, which is not in the package"
        raise UsageError(
            why + (near(requirements, package.files) or "."),
            remedy="Name a file relative to the package's folder that is not left out.",
        )
    base = posixpath.basename(requirements)
    if base in _UNSUPPORTED:
        raise UsageError(
            f"{key} names {requirements}, which neither pip nor uv installs.",
            remedy=f"Name what this makes of it: {_UNSUPPORTED[base]}",
        )
    inputs.read(requirements)
    if base == wire.UV_LOCK:
        project = package.place(posixpath.join(posixpath.dirname(requirements), "pyproject.toml"))
        inputs.files.add(package.landing(project))
        if package.landing(project) not in package.files:
            inputs.missing.append((requirements, project))
        locked = package.text(package.landing(requirements))
        inputs.local = bool(_LOCAL_LOCKED.search(locked))
    if inputs.missing:
        by, place = inputs.missing[0]
        raise UsageError(
            f"{key}: {by} needs {package.called(place)}, which is not in the package"
            + (near(place, package.files) or "."),
            remedy="Put it there, or see that neither .gitignore nor `exclude:` leaves it out.",
        )
