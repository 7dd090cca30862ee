"""Makes the environment of a release, once for each digest of what it is made of.

Owns WORKDIR/env/<digest>. Its output is kept beside it and streamed. Stdlib only, Python 3.10.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import shlex
import shutil
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from . import files, procfs
from . import manifest as wire
from .clean_env import run_environment
from .errors import OpError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .listing import Listing
    from .workdir import Workdir

    Progress = Callable[[dict[str, Any]], None]

_MARK = "ORCH_SETUP"
_COMPLETE = "complete.json"
_TAIL_LINES = 30
_TAIL_CHARS = 3000
"""Of a sentence the daemon takes 4000 in all, from its beginning on."""
_PIECE_BYTES = 16 * 1024
"""A longer line is told and kept in parts."""
_TOLD_A_SECOND = 500
"""Lines; the daemon has other runs to look at. All of them are in the log."""
_TOLD_BYTES_A_SECOND = 256 * 1024
_NAMED_CHARS = 300
"""Of a command in a sentence; the whole of it is the first line of its output."""
_EXPORTED = "requirements.txt"
_NO_NETWORK = ("name resolution", "dns error", "NewConnectionError", "Network is unreachable")
"""In what pip and uv print where they reach no index."""
_IDENTITY = (
    "import sys,platform;"
    "print(platform.python_implementation(),platform.python_version(),sys.executable)"
)


class Surroundings(NamedTuple):
    """In what setup's programs run, besides the clean environment."""

    env: dict[str, str]
    """The job's own variables."""
    path_first: list[str]
    """Folders before the standard PATH: where the target's own interpreter is."""

    @classmethod
    def of(cls, args: dict[str, Any]) -> Surroundings:
        """As an op was given them."""
        return cls(dict(args.get("env") or {}), list(args.get("path_first") or ()))

    def environment(self, *first: str) -> dict[str, str]:
        """Whole, with more folders before all others in PATH."""
        return run_environment(self.env, path_first=[*first, *self.path_first], python_path=[])


def digest_of(listing: Listing, around: Surroundings) -> str | None:
    """The name of the environment that a release needs; None where it has no setup.

    Made of the interpreter as it is here, the requirements' content, wheels and commands; of the
    whole package where that is installed itself.
    """
    manifest = listing.manifest
    setup = manifest.setup
    if setup is None:
        return None
    named = setup["requirements"]
    requirements = listing.entries.get(f"{manifest.name}/{named}") if named else None
    inputs = {
        "python": _identity(setup["python"], around),
        "requirements": requirements.content if requirements is not None else None,
        "system_site_packages": setup["system_site_packages"],
        "run": setup["run"],
        **_included(listing, setup.get("included") or ()),
        **({"package": _content_of(listing)} if setup.get("of_package") else {}),
        "wheels": sorted(
            entry.content
            for entry in listing.entries.values()
            if entry.path.startswith(f"{wire.WHEELS}/")
        ),
    }
    raw = json.dumps(inputs, sort_keys=True).encode()
    return hashlib.sha256(raw).hexdigest()[: wire.DIGEST_CHARS]


def _included(listing: Listing, names: Sequence[str]) -> dict[str, Any]:
    """What the files hold that the requirements include; no key where there is none."""
    prefix = listing.manifest.name
    contents = [listing.entries[f"{prefix}/{name}"].content for name in names]
    return {"included": contents} if contents else {}


def _content_of(listing: Listing) -> str:
    """What tells a package apart that setup installs from the release's own folder."""
    lines = "\n".join(sorted(listing.lines.values()))
    return hashlib.sha256(lines.encode()).hexdigest()


def _identity(python: str, around: Surroundings) -> str:
    env = around.environment()
    path = shutil.which(python, path=env["PATH"]) or python
    try:
        done = subprocess.run(
            [path, "-I", "-S", "-c", _IDENTITY],
            env=env,
            capture_output=True,
            timeout=30,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as exc:
        raise OpError(
            "DeployError",
            f"setup.python names {python}, which does not run here ({exc}).",
            "Install it, or name another interpreter under `setup: {python: ...}`.",
        ) from exc
    return done.stdout.decode("utf-8", "replace").strip()


def is_complete(workdir: Workdir, digest: str) -> bool:
    """Whether an environment was made to its end."""
    return files.read_record(os.path.join(workdir.environments, digest, _COMPLETE)) is not None


def ensure(
    workdir: Workdir, digest: str, tree: str, manifest: wire.Manifest, around: Surroundings,
    progress: Progress,
) -> bool:  # fmt: skip
    """Make an environment where it is not there yet; whether it was made now.

    OpError with the end of the output where a command of it fails.
    """
    if is_complete(workdir, digest):
        return False
    setup = manifest.setup or {}
    folder = os.path.join(workdir.environments, digest)
    os.makedirs(workdir.environments, exist_ok=True)
    mark = _mark(workdir, digest)
    _end_orphans(mark, digest, folder)
    shutil.rmtree(folder, ignore_errors=True)
    with open(f"{folder}.log", "wb") as log:
        step = _Steps(mark, folder, tree, workdir, around, log, progress)
        for argv in _commands(setup, folder, os.path.dirname(tree), step.uv):
            step.run(argv)
    files.write_record(os.path.join(folder, _COMPLETE), {"at": time.time(), "setup": setup})
    return True


def _commands(setup: dict[str, Any], folder: str, release: str, uv: str | None) -> list[list[str]]:
    site = ["--system-site-packages"] if setup["system_site_packages"] else []
    python = os.path.join(folder, "bin", "python")
    wheels = os.path.join(release, wire.WHEELS)
    offline = ["--no-index", "--find-links", wheels] if os.path.isdir(wheels) else []
    if uv is not None:
        commands = [[uv, "venv", "--python", setup["python"], *site, folder]]
        install = [uv, "pip", "install", "--python", python]
    else:
        commands = [[setup["python"], "-m", "venv", *site, folder]]
        install = [python, "-m", "pip", "install", "--disable-pip-version-check"]
    requirements = setup["requirements"]
    if requirements and os.path.basename(requirements) == wire.UV_LOCK:
        project, requirements = os.path.dirname(requirements), f"{folder}/{_EXPORTED}"
        commands.append(_export(uv, project or ".", requirements))
    if requirements:
        commands.append([*install, *offline, "-r", requirements])
    return commands + [["sh", "-c", line] for line in setup["run"]]


def _export(uv: str | None, project: str, path: str) -> list[str]:
    """What makes a requirements file of uv's lock file: that, unlike a sync, takes wheels sent."""
    if uv is None:
        raise OpError(
            "DeployError",
            f"setup.requirements names {wire.UV_LOCK}, and uv is not there.",
            "Install uv there, or name what `uv export -o requirements.txt` makes of it.",
        )
    words = ("--frozen", "--quiet", "--no-dev", "--no-emit-project")
    return [uv, "export", *words, "--project", project, "-o", path]


class _Steps:
    """Runs the commands of one setup, each to its end."""

    def __init__(
        self,
        mark: str,
        folder: str,
        tree: str,
        workdir: Workdir,
        around: Surroundings,
        log: Any,
        progress: Progress,
    ) -> None:
        self._tree = tree
        self._workdir = workdir
        self._log = log
        self._progress = progress
        env = around.environment(os.path.join(folder, "bin"))
        self._env = env | {_MARK: mark, "VIRTUAL_ENV": folder}
        self._tail: list[str] = []
        self._told = self._told_bytes = self._untold = 0
        self._since = time.monotonic()
        self.uv = shutil.which("uv", path=f"{env['PATH']}:{env['HOME']}/.local/bin")

    def run(self, argv: list[str]) -> None:
        """Run one command, its output kept and streamed; OpError where it fails."""
        self._say(f"$ {shlex.join(argv)}")
        try:
            program = shutil.which(argv[0], path=self._env["PATH"]) or argv[0]
            child = subprocess.Popen(
                [program, *argv[1:]], cwd=self._tree, env=self._env, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip
        except OSError as exc:
            raise self._failed(argv, str(exc)) from exc
        with child:
            assert child.stdout is not None
            while line := child.stdout.readline(_PIECE_BYTES):
                self._say(line.decode("utf-8", "replace").rstrip("\r\n"))
        self._tell_rest()
        if child.returncode < 0:
            raise self._failed(argv, f"ended by signal {-child.returncode}")
        if child.returncode:
            raise self._failed(argv, f"exit status {child.returncode}")

    def _say(self, line: str) -> None:
        raw = line.encode("utf-8", "replace")
        self._log.write(raw + b"\n")
        self._log.flush()
        self._tail = [*self._tail[-_TAIL_LINES:], line]
        if time.monotonic() - self._since >= 1.0:
            self._tell_rest()
        if self._told < _TOLD_A_SECOND and self._told_bytes < _TOLD_BYTES_A_SECOND:
            self._told += 1
            self._told_bytes += len(raw)
            self._progress({"stage": "setup", "line": line})
        else:
            self._untold += 1

    def _tell_rest(self) -> None:
        """Another second begins; how many lines of the last one were passed over."""
        if self._untold:
            line = f"({self._untold} more lines are in {self._log.name})"
            self._progress({"stage": "setup", "line": line})
        self._told = self._told_bytes = self._untold = 0
        self._since = time.monotonic()

    def _failed(self, argv: list[str], why: str) -> OpError:
        tail = "\n".join(self._tail)
        remedy = f"The whole output is in {self._log.name}."
        if any(word in tail for word in _NO_NETWORK):
            remedy += " Where no index can be reached, `wheelhouse: DIR` sends wheels along."
        return OpError(
            "DeployError",
            f"setup failed: {_named(argv)}: {why}; {self._workdir.unchanged()}.\n"
            f"{tail[-_TAIL_CHARS:]}",
            remedy,
        )


def _named(argv: list[str]) -> str:
    """A command in short: the beginning of a line of `run`, else up to its first option or path."""
    if argv[0] == "sh":
        line = argv[-1]
        return line if len(line) <= _NAMED_CHARS else f"{line[:_NAMED_CHARS]}..."
    words = itertools.takewhile(lambda word: not word.startswith(("--", "/")), argv[1:])
    return " ".join([os.path.basename(argv[0]), *words])


def _mark(workdir: Workdir, digest: str) -> str:
    """What only those carry in their environment that make this environment of this workdir.

    Another workdir may be given the same one at the same time, and a container has its own paths.
    """
    found = os.stat(workdir.environments)
    return f"{digest}@{found.st_dev}:{found.st_ino}"


def _end_orphans(mark: str, digest: str, folder: str) -> None:
    """End what a killed deploy left running, so that nobody else writes into the environment.

    An older orch marked them by the digest alone, which another workdir may have as well.
    """
    older = (digest, folder)
    for found in procfs.every():
        around = procfs.environment(found.pid)
        if around.get(_MARK) == mark or (around.get(_MARK), around.get("VIRTUAL_ENV")) == older:
            with contextlib.suppress(ProcessLookupError):
                os.kill(found.pid, signal.SIGKILL)
