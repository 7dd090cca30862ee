"""One real LXC container of a lab's host.

Owns its folder, its LXC configuration and its cgroup on the machine. The container is named by
its id, as `pct` names it; the cgroup namespace of the host keeps several labs' 200s apart.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tests.lab import cgroups

if TYPE_CHECKING:
    from tests.lab.host import Host

STANDINS = Path(__file__).parent / "standins"
ID_SHIFT = 100000
PROFILE = "PS1='\\u@\\h:\\w\\$ '\n"
# What the machine has in these is none of a container's business.
HIDDEN = ("root", "run", "srv", "tmp", "var/tmp", "opt", "home", "mnt")
# What root inside must be able to write to besides; in an unprivileged container it belongs to it.
WRITABLE = ("", "etc", "var", "var/lib", "var/log", "var/cache", "usr/local", "usr/local/bin")

CONFIG = """\
lxc.uts.name = ct{id}
lxc.rootfs.path = dir:{rootfs}
lxc.net.0.type = empty
lxc.net.0.flags = up
lxc.mount.auto = proc:mixed sys:mixed cgroup:mixed
lxc.autodev = 1
lxc.cgroup.relative = 1
lxc.pty.max = 1024
lxc.mount.entry = tmpfs dev/shm tmpfs rw,nosuid,nodev,create=dir,size=1g 0 0
lxc.mount.entry = {lab}/gpu run/orch-lab/gpu none bind,ro,create=dir 0 0
lxc.mount.entry = {jobs} opt/jobs none bind,ro,create=dir 0 0
lxc.init.cmd = /usr/bin/tini -- sleep infinity
lxc.apparmor.profile = unconfined
"""
UNPRIVILEGED = f"""\
lxc.idmap = u 0 {ID_SHIFT} 65536
lxc.idmap = g 0 {ID_SHIFT} 65536
"""
PROXMOX_CGROUP = """\
lxc.cgroup.dir.monitor = lxc.monitor/{id}
lxc.cgroup.dir.container = lxc/{id}
lxc.cgroup.dir.container.inner = ns
"""


@dataclass(slots=True)
class Container:
    """A container of HOST, known as ID to pct and to LXC."""

    host: Host
    id: str
    unprivileged: bool
    proxmox_cgroup: bool
    _disks: list[str] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        """Its folder as the machine sees it."""
        return self.host.folder / "ct" / self.id

    @property
    def cgroup_path(self) -> str:
        """Its cgroup as the host's /proc shows it."""
        return f"/lxc/{self.id}" if self.proxmox_cgroup else f"/lxc.payload.{self.id}"

    def cgroup(self, controller: str) -> Path:
        """Its folder in a v1 hierarchy, as the machine sees it, e.g. of `memory`."""
        for hierarchy in cgroups.hierarchies():
            if controller in hierarchy.options.split(","):
                return hierarchy.mountpoint / self.host.cgroup / self.cgroup_path[1:]
        raise LookupError(f"this machine mounts no v1 cgroup hierarchy with {controller}")

    @property
    def init_pid(self) -> int:
        """PID of the container's init as the host sees it."""
        found = self.host.run(["lxc-info", "-n", self.id, "-pH"]).stdout.strip()
        if not found:
            raise LookupError(f"container {self.id} is not running")
        return int(found)

    @property
    def is_running(self) -> bool:
        """Whether its init lives, frozen or not."""
        return self.host.run(["lxc-info", "-n", self.id, "-sH"]).stdout.strip() != "STOPPED"

    @property
    def root(self) -> Path:
        """The running container's root as a path of the machine, for reading and writing."""
        return Path(f"/proc/{self.init_pid}/root")

    def prepare(self) -> None:
        """Write everything that the container needs before its first start."""
        upper = self.folder / "upper"
        for name in HIDDEN:
            hidden = upper / name
            hidden.mkdir(parents=True, exist_ok=True)
            hidden.chmod(0o1777 if name.endswith("tmp") else 0o755)
            os.setxattr(hidden, "trusted.overlay.opaque", b"y")
        for name in ("work", "rootfs"):
            (self.folder / name).mkdir()
        (upper / "root").chmod(0o700)
        (upper / "root/.bashrc").write_text(PROFILE)
        (upper / "usr/bin").mkdir(parents=True)
        shutil.copy(STANDINS / "nvidia-smi", upper / "usr/bin/nvidia-smi")
        inside = self.host.lab_inside / "ct" / self.id
        config = CONFIG.format(
            id=self.id,
            rootfs=inside / "rootfs",
            lab=self.host.lab_inside,
            jobs=self.host.lab_inside / "jobs",
        )
        if self.unprivileged:
            config += UNPRIVILEGED
        if self.proxmox_cgroup:
            config += PROXMOX_CGROUP.format(id=self.id)
        (self.folder / "config").write_text(config)

    def mounting(self) -> str:
        """Shell lines that mount its root inside the host, where it outlasts the container."""
        inside = self.host.lab_inside / "ct" / self.id
        lxc_folder = f"{self.host.lxcpath}/{self.id}"
        lines = [
            f"mount -t overlay overlay -o lowerdir=/var/lib/orch-lab/machine,"
            f"upperdir={inside}/upper,workdir={inside}/work {inside}/rootfs",
            f"mkdir -p {lxc_folder}",
            f"cp {inside}/config {lxc_folder}/config",
            f"echo 'hostname: ct{self.id}' > /etc/pve/lxc/{self.id}.conf",
        ]
        if self.unprivileged:
            owned = " ".join(f"{inside}/rootfs/{name}" for name in (*HIDDEN, *WRITABLE))
            lines.append(f"chown {ID_SHIFT}:{ID_SHIFT} {owned} {inside}/rootfs/root/.bashrc")
        return "\n".join(lines) + "\n"

    def start(self) -> None:
        """Start it and wait until it runs."""
        log = f"{self.host.lab_inside}/ct/{self.id}/lxc.log"
        done = self.host.run(
            ["lxc-start", "-n", self.id, "-d", "-l", "INFO", "-o", log], check=False
        )
        if done.returncode != 0:
            tail = (self.folder / "lxc.log").read_text(errors="replace")[-3000:]
            raise RuntimeError(f"container {self.id} did not start: {done.stderr}\n{tail}")

    def stop(self) -> None:
        """Kill everything in it, as a power cut would; its files stay for the next start."""
        self.host.run(["lxc-stop", "-n", self.id, "-k"])
        self._disks.clear()

    def freeze(self) -> None:
        """Stop every process in it from running until `thaw`."""
        self.host.run(["lxc-freeze", "-n", self.id])

    def thaw(self) -> None:
        """Let its processes run again."""
        self.host.run(["lxc-unfreeze", "-n", self.id])

    def run(
        self, argv: list[str], *, check: bool = True, stdin: str = "", timeout_s: float = 30
    ) -> subprocess.CompletedProcess[str]:
        """Run ARGV inside with a clean environment, past ssh and pct (for the test's own looks)."""
        attach = ["lxc-attach", "-n", self.id, "--clear-env", "--", "/usr/bin/env"]
        clean = ["HOME=/root", "USER=root", "SHELL=/bin/bash", "LANG=C.UTF-8"]
        return self.host.run(
            [*attach, *clean, *argv], check=check, stdin=stdin, timeout_s=timeout_s
        )

    def pids(self, *, running: str = "") -> set[int]:
        """PIDs as the host sees them of what runs in it; RUNNING is a part of the command line."""
        found: set[int] = set()
        for folder, _, _ in os.walk(self.cgroup("pids")):
            found.update(int(p) for p in (Path(folder) / "cgroup.procs").read_text().split())
        return {pid for pid in found if running in _command_line(pid)}

    def mount_small_disk(self, path: str, size_bytes: int) -> None:
        """Mount an empty file system of SIZE_BYTES at PATH inside; `reset` takes it away."""
        owner = ID_SHIFT if self.unprivileged else 0
        self.run(["mkdir", "-p", path])
        options = f"size={size_bytes},mode=755,uid={owner},gid={owner}"
        self._with_its_mounts(["mount", "-t", "tmpfs", "-o", options, "tmpfs", path])
        self._disks.append(path)

    def _with_its_mounts(self, argv: list[str]) -> None:
        """Run ARGV with the host's rights on the container's file systems."""
        enter = ["nsenter", "-t", str(self.init_pid), "--mount", "--pid", "--root", "--"]
        self.host.run([*enter, *argv])

    def limit_memory(self, limit_bytes: int) -> None:
        """Let the kernel kill what makes the container use more than LIMIT_BYTES."""
        (self.cgroup("memory") / "memory.limit_in_bytes").write_text(str(limit_bytes))

    def own_pids(self) -> set[int]:
        """The processes without which it would not run: LXC's monitor, init and init's sleep."""
        init = self.init_pid
        status = Path(f"/proc/{init}/status").read_text()
        monitor = int(status.split("PPid:")[1].split()[0])
        children = Path(f"/proc/{init}/task/{init}/children").read_text().split()
        return {init, monitor, *(int(child) for child in children[:1])}

    def reset(self) -> None:
        """Undo what a test left in it: files of the usual places, limits, a stop."""
        if not self.is_running:
            self.start()
        self.limit_memory(-1)
        while self._disks:
            self._with_its_mounts(["umount", "--lazy", self._disks.pop()])
        places = "/srv /tmp /root /var/tmp /opt /run /dev/shm"
        self.run(
            ["sh", "-c", f"find {places} -xdev -mindepth 1 ! -name .bashrc -delete 2>/dev/null; :"]
        )


def _command_line(pid: int) -> str:
    try:
        return (
            Path(f"/proc/{pid}/cmdline")
            .read_bytes()
            .replace(b"\0", b" ")
            .decode("utf-8", "replace")
        )
    except OSError:
        return ""  # it ended
