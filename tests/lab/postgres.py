"""A real PostgreSQL for tests: its own folder, a unix socket and no port, as an unprivileged user.

Owns the server's life. `with Postgres.start() as server: server.database()` gives the URL of an
empty database.
"""

import itertools
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

VERSIONS = Path("/usr/lib/postgresql")
WITHIN_S = 60.0


class PostgresUnavailableError(Exception):
    """There is no PostgreSQL here, or it does not start; the text says why."""


class Postgres:
    """One server."""

    def __init__(self, folder: Path, programs: Path) -> None:
        self._folder, self._programs = folder, programs
        self._numbers = itertools.count(1)
        # initdb and postgres refuse to run as root.
        self._as: dict[str, Any] = {"user": "postgres", "group": "postgres"}
        if os.getuid() != 0:
            self._as = {}
        self._make()
        self._server = subprocess.Popen(
            [
                *(str(programs / "postgres"), "-D", str(folder / "data"), "-k", str(folder)),
                *("-c", "listen_addresses=", "-c", "fsync=off", "-c", "max_connections=50"),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            **self._as,
        )

    @classmethod
    def start(cls) -> "Postgres":
        """The newest one that is installed; PostgresUnavailableError where there is none."""
        found = sorted(VERSIONS.glob("*/bin"), key=lambda path: float(path.parent.name))
        if not found:
            raise PostgresUnavailableError(f"no PostgreSQL in {VERSIONS} (apt: postgresql)")
        folder = Path(tempfile.mkdtemp(prefix="orch-pg-", dir="/tmp"))
        server = cls(folder, found[-1])
        deadline = time.monotonic() + WITHIN_S
        while server._psql("SELECT 1", "postgres").returncode != 0:
            if time.monotonic() > deadline or server._server.poll() is not None:
                server.stop()
                raise PostgresUnavailableError("PostgreSQL does not start")
            time.sleep(0.1)
        return server

    def _make(self) -> None:
        if self._as:
            shutil.chown(self._folder, "postgres", "postgres")
        subprocess.run(
            [
                *(str(self._programs / "initdb"), "-D", str(self._folder / "data")),
                *("-A", "trust", "-U", "orch", "--no-sync", "-E", "UTF8", "--locale=C"),
            ],
            check=True,
            capture_output=True,
            cwd=self._folder,
            **self._as,
        )

    def database(self) -> str:
        """The URL of a new, empty database."""
        name = f"fleet{next(self._numbers)}"
        made = self._psql(f"CREATE DATABASE {name}", "postgres")
        assert made.returncode == 0, made.stderr
        return f"postgresql+psycopg://orch@/{name}?host={self._folder}"

    def query(self, url: str, words: str) -> list[str]:
        """The lines of an answer, values separated by `|`."""
        done = self._psql(words, url.partition("@/")[2].partition("?")[0])
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    def _psql(self, words: str, database: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            ["psql", "-h", str(self._folder), "-U", "orch", "-d", database, "-tAc", words],
            check=False,
            capture_output=True,
            text=True,
            cwd=self._folder,
        )

    def pause(self) -> None:
        """The server and its children stand still, as on a machine that hangs."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """They move again."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        children = Path(f"/proc/{self._server.pid}/task/{self._server.pid}/children").read_text()
        for pid in (self._server.pid, *map(int, children.split())):
            os.kill(pid, number)

    def stop(self) -> None:
        """End it and forget all of it."""
        if self._server.poll() is None:
            self._server.send_signal(signal.SIGINT)
            self._server.wait(timeout=WITHIN_S)
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> "Postgres":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
