"""Fixtures shared by every test: the lab, a webhook receiver, folders, a tmux of one's own.

Owns the policy of @pytest.mark.lab: in CI a missing lab is a failure, elsewhere a skip with the
reason. A worker starts one lab of its own. All labs share the kernel's log, so tests to whose runs
the kernel may say something (OOM, signal, Xid) are one xdist group, `lab`, which is also that of
tests that name none; others name a smaller one, `lab-...`, and any worker takes it.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.lab import host as lab_host
from tests.lab.lab import Lab, LabUnavailableError
from tests.lab.postgres import Postgres, PostgresUnavailableError
from tests.lab.receiver import Receiver
from tests.nursery.client import Nursery

TmuxCall = Callable[..., subprocess.CompletedProcess[str]]


def pytest_configure() -> None:
    """Let the programs under test hear Ctrl-C, also where our shell runs us in its background.

    And let no example of Hypothesis fail by how busy the machine is.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    settings.register_profile(
        "busy", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.load_profile("busy")


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups in this very hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put lab tests that name no xdist group into the group `lab`: labs share one kernel log."""
    for item in items:
        if item.get_closest_marker("lab") and not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group("lab"))


def _start_lab(*, netns: bool) -> Lab:
    try:
        return Lab.start(netns=netns)
    except LabUnavailableError as why:
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI must run the lab: {why}")
        pytest.skip(str(why))


@pytest.fixture(scope="session")
def shared_lab() -> Iterator[Lab]:
    """The worker's lab; tests take `lab`, which gives it back as new."""
    lab = _start_lab(netns=False)
    yield lab
    lab.stop()


@pytest.fixture(scope="session")
def shared_netns_lab() -> Iterator[Lab]:
    """The worker's lab whose host has a cable; tests take `netns_lab`."""
    lab = _start_lab(netns=True)
    yield lab
    lab.stop()


@pytest.fixture
def lab(shared_lab: Lab) -> Iterator[Lab]:
    """A host `pve1` with containers 200 (privileged) and 201 (unprivileged, Proxmox's cgroup)."""
    yield shared_lab
    shared_lab.reset()


@pytest.fixture
def netns_lab(shared_netns_lab: Lab) -> Iterator[Lab]:
    """As `lab`, with a host in a network namespace: `netns_lab.host.cut()` and `restore()`."""
    yield shared_netns_lab
    shared_netns_lab.reset()


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery | None]:
    """The worker's nursery; where each `orch` must be a Python of its own, one that is None."""
    with Nursery() as running:
        yield running


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """The worker's PostgreSQL; each test takes a database of its own from it."""
    try:
        server = Postgres.start()
    except PostgresUnavailableError as why:
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI must test on PostgreSQL: {why}")
        pytest.skip(str(why))
    with server:
        yield server


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A webhook receiver on loopback."""
    with Receiver() as running:
        yield running


@pytest.fixture
def free_port() -> int:
    """A TCP port on loopback that is free."""
    return lab_host.free_port()


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder with a short path: a unix socket's path must stay under 100 bytes."""
    folder = Path(tempfile.mkdtemp(prefix="orch-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class XdgFolders:
    """The user's folders of one test."""

    home: Path
    state: Path
    runtime: Path
    config: Path
    cache: Path


@pytest.fixture
def xdg(short_folder: Path, monkeypatch: pytest.MonkeyPatch) -> XdgFolders:
    """A home of one's own: HOME and the XDG variables point to fresh folders with short paths."""
    folders = XdgFolders(
        home=short_folder / "h",
        state=short_folder / "s",
        runtime=short_folder / "r",
        config=short_folder / "c",
        cache=short_folder / "k",
    )
    for name in ("home", "state", "runtime", "config", "cache"):
        folder: Path = getattr(folders, name)
        folder.mkdir(mode=0o700)
        variable = {"home": "HOME", "runtime": "XDG_RUNTIME_DIR"}.get(name)
        monkeypatch.setenv(variable or f"XDG_{name.upper()}_HOME", str(folder))
    return folders


@pytest.fixture(scope="session", autouse=True)
def tmux_sockets() -> Iterator[Path]:
    """Every tmux of this worker's tests keeps its sockets here, never in the user's folder."""
    folder = Path(tempfile.mkdtemp(prefix="orch-tmux-", dir="/tmp"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMUX_TMPDIR", str(folder))
        patch.delenv("TMUX", raising=False)
        yield folder
    shutil.rmtree(folder, ignore_errors=True)


def _end_servers(folder: Path) -> list[str]:
    """Kill the tmux servers that answer on a socket below FOLDER; return their sockets' names."""
    ended = []
    for path in folder.glob("tmux-*/*"):
        done = subprocess.run(["tmux", "-S", path, "kill-server"], capture_output=True, check=False)
        if done.returncode == 0:
            ended.append(path.name)
        path.unlink(missing_ok=True)
    return ended


@pytest.fixture(autouse=True)
def no_tmux_left(tmux_sockets: Path) -> Iterator[None]:
    """Fail a test that leaves a tmux server behind; `tmux` ends the ones that it starts."""
    yield
    if left := _end_servers(tmux_sockets):
        pytest.fail(f"the test left tmux servers behind, by socket: {left}")


@pytest.fixture
def tmux(tmux_sockets: Path) -> Iterator[TmuxCall]:
    """`tmux("new-session", "-d", ...)` on the test's own sockets; the servers end with the test."""

    def call(*args: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["tmux", *args], capture_output=True, text=True, check=check, timeout=20
        )

    yield call
    _end_servers(tmux_sockets)
