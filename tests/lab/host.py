"""A host of the lab: an sshd of its own over the machine's root, in namespaces of its own.

Owns the namespaces (mount, cgroup, uts, and net where asked), the sshd, its keys, and the files
that make the host look like one with Proxmox. Nothing that happens on the host changes a file of
the machine: its root is an overlay whose upper folder goes with the lab.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

from tests.lab import cgroups
from tests.lab.cable import Cable
from tests.lab.container import STANDINS, Container

START_DEADLINE_S = 20.0
HIDDEN = ("root", "tmp", "srv", "opt", "home", "mnt", "var/tmp", "var/lib/lxc", "etc/pve")

BASHRC_PLAIN = "PS1='\\u@\\h:\\w\\$ '\n"
BASHRC_PRINTS = (
    'echo "Welcome to $(hostname)! 3 updates can be applied."\necho "last backup: never" >&2\n'
)
BASHRC_SLOW = "PS1='$(sleep 0.3)\\u@\\h\\$ '\nsleep 0.3\necho environment ready in 0.3 s >&2\n"
BASHRC_FAILS = "source /opt/conda/etc/profile.d/conda.sh\nfalse\nreturn 3\n"

SSHD_CONFIG = """\
ListenAddress {address}:{port}
HostKey /etc/ssh/lab_host_ed25519
PidFile none
UsePAM no
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
AcceptEnv LANG LC_*
PrintMotd no
Subsystem sftp internal-sftp
"""
# MaxSessions 10 and MaxStartups 10:30:100 are sshd's own defaults and are left at them.


def free_port(address: str = "127.0.0.1") -> int:
    """A TCP port that nothing listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])


class Host:
    """One host; `Lab.start` makes it, and its address, port and keys are for the tests."""

    name = "pve1"

    def __init__(self, folder: Path, lab_id: str, cgroup: str, link: str) -> None:
        self.folder = folder
        self.cgroup = cgroup
        self.link = link
        self.lab_inside = Path("/var/lib/orch-lab/lab")
        # lxc-attach finds a container by an abstract socket named by this path, so labs that
        # share a network namespace need one each.
        self.lxcpath = f"/var/lib/lxc/{lab_id}"
        self.address = "127.0.0.1"
        self.port = 22
        self.identity_file = folder / "keys" / "id_ed25519"
        self.known_hosts = folder / "keys" / "known_hosts"
        self._cable: Cable | None = None
        self._leader: subprocess.Popen[str] | None = None
        self._sshd: subprocess.Popen[bytes] | None = None

    # -- starting and ending

    def start(self, containers: list[Container]) -> None:
        """Bring up namespaces, files, containers and sshd, in this order."""
        self._write_files()
        for container in containers:
            container.prepare()
        self._start_leader()
        if self.link:
            self._cable = Cable(self.link, self.leader_pid)
            self.address = self._cable.address
        script = "set -e\nmkdir -p /etc/pve/nodes/{0}/lxc\nln -s nodes/{0}/lxc /etc/pve/lxc\n"
        script += (
            f"mkdir -p /run/orch-lab/gpu\nmount --bind {self.lab_inside}/gpu /run/orch-lab/gpu\n"
        )
        self.run(
            ["sh", "-s"],
            stdin=script.format(self.name) + "".join(c.mounting() for c in containers),
        )
        for container in containers:
            container.start()
        self.start_sshd()

    def stop(self) -> None:
        """Reap what this process started; the killing is the registry's."""
        for child in (self._sshd, self._leader):
            if child is not None:
                child.wait(timeout=START_DEADLINE_S)
                if child.stdout:
                    child.stdout.close()

    def _write_files(self) -> None:
        keys, upper = self.folder / "keys", self.folder / "host" / "upper"
        for folder in (keys, upper, self.folder / "host/work", self.folder / "root"):
            folder.mkdir(parents=True)
        for name in HIDDEN:
            (upper / name).mkdir(parents=True, exist_ok=True)
            (upper / name).chmod(0o1777 if name.endswith("tmp") else 0o755)
            os.setxattr(upper / name, "trusted.overlay.opaque", b"y")
        for path, comment in ((self.identity_file, "lab user"), (keys / "host", "lab host")):
            subprocess.run(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", path],
                check=True,
            )
        for name in ("etc/ssh", "etc/lxc", "usr/sbin", "usr/bin", "root/.ssh"):
            (upper / name).mkdir(parents=True, exist_ok=True)
        shutil.copy(keys / "host", upper / "etc/ssh/lab_host_ed25519")
        shutil.copy(f"{self.identity_file}.pub", upper / "root/.ssh/authorized_keys")
        (upper / "root").chmod(0o700)
        (upper / "root/.bashrc").write_text(BASHRC_PLAIN)
        (upper / "etc/subuid").write_text("root:100000:65536\n")
        (upper / "etc/subgid").write_text("root:100000:65536\n")
        (upper / "etc/lxc/lxc.conf").write_text(f"lxc.lxcpath = {self.lxcpath}\n")
        (upper / "etc/lxc/default.conf").write_text("")
        (upper / "etc/pve/lab-keep-env").write_text("1\n")
        shutil.copy(STANDINS / "pct", upper / "usr/sbin/pct")
        shutil.copy(STANDINS / "nvidia-smi", upper / "usr/bin/nvidia-smi")

    def _start_leader(self) -> None:
        mounts = [
            word for h in cgroups.hierarchies() for word in (h.fstype, h.options, str(h.mountpoint))
        ]
        net = ["--net"] if self.link else []
        script = Path(__file__).parent / "host_root.sh"
        unshare = ["unshare", "--mount", "--cgroup", "--uts", *net, "--"]
        become = ["sh", str(script), str(self.folder), self.name, *mounts]
        with (self.folder / "host.log").open("wb") as log_file:
            self._leader = subprocess.Popen(
                cgroups.joining(self.cgroup, [*unshare, *become]),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log_file,
                text=True,
                start_new_session=True,
            )
        assert self._leader.stdout is not None
        if self._leader.stdout.readline() != "ready\n":
            log = (self.folder / "host.log").read_text()
            raise RuntimeError(f"the lab's host did not come up: {log}")

    # -- commands

    @property
    def leader_pid(self) -> int:
        """The process that holds the host's namespaces."""
        assert self._leader is not None
        return self._leader.pid

    @property
    def root(self) -> Path:
        """The host's root as a path of the machine, for reading and writing."""
        return Path(f"/proc/{self.leader_pid}/root")

    def entering(self, argv: list[str]) -> list[str]:
        """The command line that runs ARGV on the host, past ssh."""
        pid = str(self.leader_pid)
        net = ["--net"] if self.link else []
        enter = ["nsenter", "-t", pid, "--mount", "--cgroup", "--uts", *net, "--root", "--wdns=/"]
        return cgroups.joining(self.cgroup, [*enter, "--", *argv])

    def run(
        self, argv: list[str], *, check: bool = True, stdin: str = "", timeout_s: float = 30
    ) -> subprocess.CompletedProcess[str]:
        """Run ARGV on the host as root, past ssh (for the test's own looks)."""
        done = subprocess.run(
            self.entering(argv),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            env={"PATH": os.defpath + ":/usr/sbin:/sbin", "HOME": "/root", "LANG": "C.UTF-8"},
        )
        if check and done.returncode != 0:
            raise RuntimeError(f"{argv} on the lab's host: {done.returncode}\n{done.stderr}")
        return done

    def ssh_argv(self, command: str = "") -> list[str]:
        """An `ssh` command line for the host that reads nothing of the caller's own setup."""
        options = [
            "-F", "none", "-i", str(self.identity_file), "-p", str(self.port),
            "-o", f"UserKnownHostsFile={self.known_hosts}", "-o", "IdentitiesOnly=yes",
            "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes",
        ]  # fmt: skip
        return ["ssh", *options, f"root@{self.address}", *([command] if command else [])]

    def ssh(
        self, command: str, *, stdin: str = "", timeout_s: float = 30
    ) -> subprocess.CompletedProcess[str]:
        """Run the shell line COMMAND through the real ssh client; the exit code is the caller's."""
        return subprocess.run(
            self.ssh_argv(command),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    # -- sshd

    def start_sshd(self) -> None:
        """Start sshd; the port is found at the first start and stays the same."""
        for _attempt in range(10):
            if self.port == 22 and not self.link:
                self.port = free_port()
            config = SSHD_CONFIG.format(address=self.address, port=self.port)
            (self.root / "etc/ssh/lab_sshd_config").write_text(config)
            with (self.folder / "sshd.log").open("ab") as log_file:
                self._sshd = subprocess.Popen(
                    self.entering(["/usr/sbin/sshd", "-D", "-e", "-f", "/etc/ssh/lab_sshd_config"]),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=log_file,
                    start_new_session=True,
                    env={"PATH": os.defpath},
                )
            if self._answers():
                break
        else:
            raise RuntimeError((self.folder / "sshd.log").read_text())
        self.trust_at(self.address, self.port)

    def _answers(self) -> bool:
        assert self._sshd is not None
        deadline = time.monotonic() + START_DEADLINE_S
        while time.monotonic() < deadline and self._sshd.poll() is None:
            try:
                with socket.create_connection((self.address, self.port), timeout=2) as link:
                    return link.recv(4) == b"SSH-"
            except OSError:
                time.sleep(0.01)
        return False

    def trust_at(self, address: str, port: int) -> None:
        """Add the host's key to `known_hosts` for an address at which it can be reached."""
        where = address if port == 22 else f"[{address}]:{port}"
        line = f"{where} {(self.folder / 'keys/host.pub').read_text()}"
        known = self.known_hosts.read_text() if self.known_hosts.exists() else ""
        if line not in known:
            self.known_hosts.write_text(known + line)

    def kill_sshd(self) -> None:
        """SIGKILL the listening sshd and those of every open connection; sessions stay behind."""
        for pid in cgroups.pids(self.cgroup):
            try:
                if Path(f"/proc/{pid}/exe").readlink().name == "sshd":
                    os.kill(pid, signal.SIGKILL)
            except OSError:
                continue
        assert self._sshd is not None
        self._sshd.wait(timeout=START_DEADLINE_S)

    # -- what a real host brings along

    def set_bashrc(self, text: str) -> None:
        """Make TEXT root's .bashrc: the shell behind every ssh command reads it."""
        (self.root / "root/.bashrc").write_text(text)

    def set_keep_env(self, keep: bool) -> None:
        """Whether `pct exec` hands the environment of its caller in when it is not told."""
        (self.root / "etc/pve/lab-keep-env").write_text("1\n" if keep else "0\n")

    def reset(self) -> None:
        """Undo what a test changed on the host itself."""
        if self._cable is not None and self._cable.is_cut:
            self._cable.restore()
        assert self._sshd is not None
        if self._sshd.poll() is not None:
            self.start_sshd()
        self.known_hosts.unlink()
        self.trust_at(self.address, self.port)
        self.set_bashrc(BASHRC_PLAIN)
        self.set_keep_env(True)
        for name in ("tmp", "srv", "opt", "var/tmp"):
            for path in (self.root / name).iterdir():
                _remove(path)
        for path in (self.root / "root").iterdir():
            if path.name not in {".bashrc", ".ssh"}:
                _remove(path)

    def own_pids(self) -> set[int]:
        """The processes without which there is no host: its root process, its listening sshd."""
        assert self._sshd is not None
        return {self.leader_pid, self._sshd.pid}

    # -- the cable (only with a network namespace)

    def cut(self) -> None:
        """Cut the cable: packets vanish both ways, nobody is told."""
        self._plugged().cut()

    def restore(self) -> None:
        """Plug the cable in again."""
        self._plugged().restore()

    def _plugged(self) -> Cable:
        if self._cable is None:
            raise LookupError("this lab has no cable to cut; start it with netns=True")
        return self._cable


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
