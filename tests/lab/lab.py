"""The lab as one object: a host with containers, started and taken down whole.

Owns the order of starting and the record in the registry. Usage:

    with Lab.start() as lab:
        lab.host.ssh("pct exec 200 -- hostname")
        lab.inventory_yaml()
"""

from __future__ import annotations

import atexit
import os
import secrets
import shutil
import tempfile
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from tests.lab import cgroups, driver, registry
from tests.lab.container import Container
from tests.lab.gpus import Gpus
from tests.lab.host import Host

PROGRAMS = ("lxc-start", "lxc-attach", "newuidmap", "tmux", "tini", "sshd", "ssh-keygen", "ip")
JOBS = Path(__file__).parent / "jobs"


class LabUnavailableError(Exception):
    """This machine cannot run the lab; the message names what is missing and the remedy."""


def missing() -> str | None:
    """Why the lab cannot run here, or None."""
    if os.geteuid() != 0:
        return "the lab needs root"
    path = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"
    absent = [name for name in PROGRAMS if shutil.which(name, path=path) is None]
    if absent:
        packages = "lxc openssh-server uidmap tmux tini gcc rsync"
        return f"the lab needs {', '.join(absent)}: apt-get install {packages}"
    if not cgroups.hierarchies():
        return "the lab needs a mounted cgroup hierarchy"
    return None


@dataclass(slots=True)
class Lab:
    """One running lab."""

    id: str
    folder: Path
    host: Host
    containers: dict[str, Container]
    gpus: Gpus
    record: registry.Record

    @classmethod
    def start(
        cls,
        folder: Path | None = None,
        *,
        containers: Collection[str] = ("200", "201"),
        unprivileged: Collection[str] = ("201",),
        proxmox_cgroup: Collection[str] = ("201",),
        netns: bool = False,
    ) -> Lab:
        """Start a lab in a new folder below FOLDER (default: the system's temporary folder).

        UNPRIVILEGED and PROXMOX_CGROUP name the containers made so; the others are privileged,
        with LXC's own cgroup names. With NETNS the host has a network namespace and a cable.
        Takes all down again when a part fails; raises LabUnavailableError where it cannot run.
        """
        if why := missing():
            raise LabUnavailableError(why)
        registry.sweep()
        lab = cls._reserve(folder or Path(tempfile.gettempdir()), netns=netns)
        for name in containers:
            lab.containers[name] = Container(
                host=lab.host,
                id=name,
                unprivileged=name in unprivileged,
                proxmox_cgroup=name in proxmox_cgroup,
            )
        atexit.register(lab.stop)
        try:
            lab.gpus.set_idle(0)
            shutil.copytree(JOBS, lab.folder / "jobs", ignore=shutil.ignore_patterns("__pycache__"))
            cgroups.create(lab.host.cgroup)
            with registry.locked():  # two labs must not choose the same subnet
                lab.host.start(list(lab.containers.values()))
        except BaseException:
            lab.stop()
            raise
        return lab

    @classmethod
    def _reserve(cls, parent: Path, *, netns: bool) -> Lab:
        lab_id = secrets.token_hex(3)
        folder = parent / f"orch-lab-{lab_id}"
        link = f"ol{lab_id}" if netns else ""
        started = registry.started_at(os.getpid())
        assert started is not None
        record = registry.Record(
            lab_id=lab_id,
            owner_pid=os.getpid(),
            owner_started=started,
            folder=str(folder),
            cgroup=f"orch-lab-{lab_id}",
            link=link,
        )
        with registry.locked():
            registry.write(record)
        folder.mkdir(mode=0o755)
        folder.chmod(0o755)
        (folder / "gpu").mkdir()
        return cls(
            id=lab_id,
            folder=folder,
            host=Host(folder, lab_id, record.cgroup, link),
            containers={},
            gpus=Gpus(folder / "gpu"),
            record=record,
        )

    def stop(self) -> None:
        """Take everything down; a second call does nothing."""
        if self.record.owner_pid != os.getpid() or not self.record.path.exists():
            return
        registry.dismantle(self.record)
        self.host.stop()
        atexit.unregister(self.stop)

    def __enter__(self) -> Lab:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def reset(self) -> None:
        """Give it back as new: no process, file, limit or cut of the last test is left."""
        keep = self.host.own_pids()
        for container in self.containers.values():
            if container.is_running:
                container.thaw()
                keep |= container.own_pids()
        cgroups.kill(self.host.cgroup, keep=keep)
        self.host.reset()
        for container in self.containers.values():
            container.reset()
        for root in self._roots():
            driver.remove(root)
        self.gpus.set_idle(0)

    def drive(self, version: int = 580) -> None:
        """Put NVML, as a driver of that major version has it, on the host and into containers."""
        library = driver.build(self.folder, version)
        for root in self._roots():
            driver.install(root, library)

    def _roots(self) -> list[Path]:
        return [self.host.root, *(one.root for one in self.containers.values())]

    def __getitem__(self, container: str) -> Container:
        return self.containers[container]

    def inventory_yaml(self, *, runtime: str = "pct", via_port: int | None = None) -> str:
        """The `version`, `hosts` and `targets` of an inventory for this lab; add jobs behind it.

        Host `pve1`, targets `ct200`, ... through RUNTIME (pct or lxc), and `pve1-itself`.
        VIA_PORT is the loopback port of a proxy that stands before the host's sshd.
        """
        host = self.host
        address, port = (host.address, host.port) if via_port is None else ("127.0.0.1", via_port)
        if via_port is not None:
            host.trust_at(address, port)
        lines = [
            "version: 1",
            "hosts:",
            f"  {host.name}:",
            f"    hostname: {address}",
            f"    port: {port}",
            "    user: root",
            f"    identity_file: {host.identity_file}",
            f"    known_hosts: {host.known_hosts}",
            "targets:",
        ]
        lines += [
            f"  ct{name}: {{host: {host.name}, runtime: {runtime}, container: {name}}}"
            for name in self.containers
        ]
        lines.append(f"  {host.name}-itself: {{host: {host.name}, runtime: none}}")
        return "\n".join(lines) + "\n"
