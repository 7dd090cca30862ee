"""Whatever the umask lets others do: nothing that is written can be changed by them."""

import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.daemon.env_file import EnvFile
from tests.acceptance.conftest import MakeOrch, local_job


@pytest.fixture
def open_umask() -> Iterator[None]:
    """A login whose umask takes nothing away."""
    before = os.umask(0)
    yield
    os.umask(before)


def writable(folder: Path) -> list[str]:
    """What others can reach and write to, at or below a folder; the mode of a link says nothing."""
    try:
        mode = folder.lstat().st_mode
    except FileNotFoundError:
        return []  # the program has renamed it meanwhile
    if stat.S_ISLNK(mode):
        return []
    found = [str(folder)] if mode & 0o022 else []
    if stat.S_ISDIR(mode) and mode & 0o001:
        found += [one for below in folder.iterdir() for one in writable(below)]
    return found


def test_nobody_else_can_write_what_orch_runs_or_believes(
    make_orch: MakeOrch, short_folder: Path, open_umask: None
) -> None:
    """The state folder and its parents, the unit, the probe, releases and records of a run."""
    orch = make_orch(local_job(short_folder, "python3 -m played steps --count 100"))
    folders = {name: short_folder / name for name in ("state", "config", "data", "run")}
    for name, folder in folders.items():
        key = "XDG_RUNTIME_DIR" if name == "run" else f"XDG_{name.upper()}_HOME"
        orch.env[key] = str(folder / "below")
    (folders["run"] / "below").mkdir(parents=True, mode=0o700)
    # Open to all from an earlier login, as nobody would notice.
    (folders["run"] / "below" / "orch").mkdir(mode=0o777)
    orch("run", "--detach")
    orch("daemon", "install")
    ours = [folders["state"], folders["config"], folders["run"] / "below" / "orch"]
    assert [one for folder in ours for one in writable(folder)] == []
    assert oct((folders["state"] / "below" / "orch").stat().st_mode & 0o777) == "0o700"
    (package,) = folders["data"].rglob("*.pyz")
    places = [package, *package.parents]
    assert [one for one in places if one.is_relative_to(folders["data"]) and writable(one)] == []
    # The program has its login's umask all the same: what it makes is its own affair.
    orch.until(lambda: [*(short_folder / "w" / "releases").rglob("__pycache__")])
    theirs = ("__pycache__", "metrics.jsonl")
    made = [*writable(short_folder / "w" / "releases"), *writable(short_folder / "w" / "runs")]
    assert [one for one in made if not one.endswith(theirs)] == []
    assert any(one.endswith("__pycache__") for one in made)
    orch("stop", "@1")


DIES = """
import ctypes, os, resource, sys
from orchestrator.core.errors import OrchError
from orchestrator.daemon.main import main
try:
    main(sys.argv[1])
except OrchError:
    print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0), flush=True)
resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
os.abort()
"""


def test_the_daemon_leaves_no_core(tmp_path: Path) -> None:
    """A daemon that dies of a signal puts its memory nowhere, and lets nobody else read it."""
    done = subprocess.run(
        [sys.executable, "-c", DIES, str(tmp_path / "inventory.yaml")],
        check=False,
        capture_output=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert (done.returncode, done.stdout) == (-signal.SIGABRT, b"0\n"), done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("mode", "taken"),
    [(0o600, True), (0o400, True), (0o640, False), (0o604, False), (0o620, False)],
)
def test_values_are_read_from_a_file_of_this_user_alone(
    tmp_path: Path, mode: int, taken: bool
) -> None:
    """What a group or others may read or write to gives no value."""
    path = tmp_path / "env"
    path.write_text("MY_TOKEN=s3cret\n")
    path.chmod(mode)
    file = EnvFile(path, "the file")
    file.changed()
    assert file.values == ({"MY_TOKEN": "s3cret"} if taken else {})


@pytest.mark.skipif(os.getuid() != 0, reason="becomes another user")
@pytest.mark.parametrize(
    ("user", "owner", "mode", "taken"),
    [
        (65530, 65530, 0o755, True),
        (65529, 0, 0o755, False),
        (65528, 65528, 0o775, False),
        (65527, 65527, 0o757, False),
    ],
)
def test_a_probes_locks_lie_in_a_folder_of_its_user_alone(
    user: int, owner: int, mode: int, taken: bool
) -> None:
    """Whoever else may write there could hold a lock for ever, or say whom to evict."""
    folder = Path(f"/tmp/orch-{user}")
    shutil.rmtree(folder, ignore_errors=True)  # of tests that were killed
    folder.mkdir()
    try:
        os.chown(folder, owner, owner)
        folder.chmod(mode)
        words = f"import os; from orchestrator.probe import lock; os.setuid({user}); "
        done = subprocess.run(
            [sys.executable, "-c", f"{words}lock.own_folder()"],
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        folder.rmdir()
    assert (f"{folder} is not a folder of this user alone." not in done.stderr) is taken
    assert (done.returncode == 0) is taken
