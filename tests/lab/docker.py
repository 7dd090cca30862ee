"""A real dockerd for tests, and containers that share this machine's programs.

Owns the life of a dockerd where none runs (a folder of its own, no network), and the one image,
which is made here: empty folders and a user root, with /usr of this machine laid over it read-only,
so that nothing is fetched and /srv is the container's own.
"""

import io
import os
import shutil
import subprocess
import tarfile
import tempfile
import time
import uuid
from pathlib import Path

WITHIN_S = 60.0
SOCKET = "unix:///var/run/docker.sock"
IMAGE = "orch-test:1"
FOLDERS = ("usr", "etc", "proc", "sys", "dev", "srv", "root", "run", "var", "tmp")
FILES = {"etc/passwd": b"root:x:0:0:root:/root:/bin/sh\n", "etc/group": b"root:x:0:\n"}
LINKS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
LIMITS = ("--ulimit", "nofile=1024:1024")


class DockerUnavailableError(Exception):
    """There is no docker here, or it does not start; the text says why."""


class Docker:
    """The dockerd of this machine where one runs, else one of our own on the usual socket."""

    def __init__(self) -> None:
        if os.geteuid() != 0 or shutil.which("docker") is None:
            raise DockerUnavailableError("needs root and docker: apt-get install docker.io")
        self._folder = Path(tempfile.mkdtemp(prefix="orch-dk-", dir="/tmp"))
        self._log = (self._folder / "log").open("wb")
        self._server: subprocess.Popen[bytes] | None = None
        self._made: list[str] = []
        if self._called("version").returncode != 0:
            self._server = self._started()

    def _started(self) -> "subprocess.Popen[bytes]":
        if shutil.which("dockerd") is None:
            raise DockerUnavailableError("there is no dockerd: apt-get install docker.io")
        places = {"data-root": "data", "exec-root": "exec", "pidfile": "pid"}
        return subprocess.Popen(
            [
                *("dockerd", "-H", SOCKET, "--storage-driver=vfs"),
                *(f"--{option}={self._folder / name}" for option, name in places.items()),
                *("--iptables=false", "--ip6tables=false", "--bridge=none"),
            ],
            stdout=self._log,
            stderr=self._log,
        )

    @classmethod
    def start(cls) -> "Docker":
        """One that answers, with its image; DockerUnavailableError where that cannot be."""
        docker = cls()
        deadline = time.monotonic() + WITHIN_S
        while docker._called("version").returncode != 0:
            ended = docker._server is None or docker._server.poll() is not None
            if ended or time.monotonic() > deadline:
                said = (docker._folder / "log").read_text("utf-8", "replace")[-2000:]
                docker.stop()
                raise DockerUnavailableError(f"dockerd does not start: {said}")
            time.sleep(0.1)
        docker._make_image()
        return docker

    def _make_image(self) -> None:
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as image:
            for name in FOLDERS:
                folder = tarfile.TarInfo(name)
                folder.type, folder.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
                image.addfile(folder)
            for name, content in FILES.items():
                file = tarfile.TarInfo(name)
                file.size = len(content)
                image.addfile(file, io.BytesIO(content))
            for name in filter(lambda one: Path("/", one).is_symlink(), LINKS):
                link = tarfile.TarInfo(name)
                link.type, link.linkname = tarfile.SYMTYPE, os.readlink(f"/{name}")
                image.addfile(link)
        path = self._folder / "image.tar"
        path.write_bytes(packed.getvalue())
        self.call("import", str(path), IMAGE)

    def container(self) -> str:
        """The name of a new container, which sleeps."""
        name = f"orch-test-{uuid.uuid4().hex[:12]}"
        self._made.append(name)
        shared = ("-v", "/usr:/usr:ro")
        self.call(
            *("run", "-d", "--name", name, "--network=none", *LIMITS, *shared),
            *(IMAGE, "sleep", "infinity"),
        )
        return name

    def call(self, *words: str) -> str:
        """What docker prints."""
        done = self._called(*words)
        assert done.returncode == 0, f"docker {' '.join(words)}: {done.stderr}"
        return done.stdout

    def _called(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            ["docker", *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=WITHIN_S,
        )

    def stop(self) -> None:
        """End what is ours, and forget all of it."""
        if self._server is None or self._server.poll() is None:
            for name in self._made:
                self._called("rm", "-f", name)
            self._called("rmi", IMAGE)
        if self._server is not None:
            self._server.terminate()
            self._server.wait(timeout=WITHIN_S)
        self._log.close()
        shutil.rmtree(self._folder, ignore_errors=True)
