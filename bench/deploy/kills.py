"""Kills deploys at random instants, and looks each time whether a release is whole.

    python -m bench.deploy.kills [N] [--seed N]

Needs the lab (root). N times (100), in an order and at instants that the seed fixes: the daemon is
killed, every ssh connection is cut, the link is cut in the middle of the transfer (at a random byte
of it, behind a proxy that carries 24 MB/s), the container is killed and started again, or a disk
has too little room. After each the release that `current` names has to be, byte for byte, one that
was deployed whole before or the one that was being deployed, and the latter where the command said
so. At the end one more deploy has to go through and leave no leftovers. 1 where anything is
otherwise.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from bench.deploy.ways import CONTAINER, ORCH
from tests.deploy.whole import Tree, leftovers, tree_of
from tests.lab import cgroups
from tests.lab.lab import Lab
from tests.lab.proxy import TcpProxy

KINDS = ("daemon", "link", "transfer", "container", "disk")
DISK = "/srv/disk"
DISK_BYTES = 64 * 1024**2
PACKAGE_BYTES = 8_000_000
LARGE_BYTES = 32_000_000
"""Has a connection of its own."""
SLOW_BYTES_PER_S = 24_000_000
CUT_S = 0.3
READY_WITHIN_S = 60.0
ENDED_WITHIN_S = 90.0


class Kills:
    """One lab, two jobs of one package: `plain`, and `small` on a disk that fills."""

    def __init__(self, lab: Lab, proxy: TcpProxy, folder: Path, seed: int) -> None:
        self._lab, self._proxy, self._random = lab, proxy, random.Random(seed)
        self._package = folder / "package"
        self._inventory = folder / "inventory.yaml"
        runtime = folder / "run"
        runtime.mkdir(mode=0o700)
        places = {"XDG_STATE_HOME": str(folder / "state"), "XDG_RUNTIME_DIR": str(runtime)}
        self._env = os.environ | places
        self._inventory.write_text(
            f"{lab.inventory_yaml(via_port=proxy.port)}jobs:\n"
            f'  plain: {{target: ct{CONTAINER}, package: package, command: "true",'
            " keep: 1, workdir: /srv/plain}\n"
            f'  small: {{target: ct{CONTAINER}, package: package, command: "true",'
            f" keep: 1, workdir: {DISK}/small}}\n"
        )
        self._may_be: dict[str, list[Tree]] = {"plain": [], "small": []}
        """What each job's release may be: the last that was seen whole, and what came after it."""
        self.seen: Counter[tuple[str, str]] = Counter()
        self.late: Counter[str] = Counter()
        """Deploys that had ended before they could be hit, by what was to hit them."""
        self.longest_s = dict.fromkeys(KINDS, 0.0)
        """Until the command had ended, by what it was hit by."""
        self.wrong: list[str] = []

    def prepare(self) -> float:
        """Deploy both for the first time; seconds that a deploy of a change takes."""
        for number in range(60):
            path = self._package / f"part{number % 3}" / f"m{number}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"x = {number}\n" * 50)
        self._lab[CONTAINER].mount_small_disk(DISK, DISK_BYTES)
        self._edit(0)
        for job in self._may_be:
            self._whole(job)
        self._edit(1)
        begun = time.monotonic()
        self._whole("plain")
        return time.monotonic() - begun

    def kill(self, number: int, takes_s: float) -> None:
        """One deploy, hit once by something."""
        kind = self._random.choice(KINDS)
        job = "small" if kind == "disk" else "plain"
        self._ready(job)
        large = kind == "transfer" and self._random.random() < 0.5
        size = LARGE_BYTES if large else PACKAGE_BYTES
        self._edit(number, size)
        wanted = tree_of(self._package)
        if kind == "disk":
            self._fill()
        self._proxy.bytes_per_s = SLOW_BYTES_PER_S if kind == "transfer" else 0
        before = self._proxy.carried_bytes
        deploying, begun = self._start(job), time.monotonic()
        if kind == "transfer":
            self._cut_at(before + int(self._random.uniform(0.01, 0.99) * size), deploying)
        elif kind != "disk":
            time.sleep(self._random.uniform(0, takes_s))
            self.late[kind] += deploying.poll() is not None
            self._hit(kind)
        done = self._ended(number, kind, deploying)
        self.longest_s[kind] = max(self.longest_s[kind], time.monotonic() - begun)
        may_be = [wanted] if done else [*self._may_be[job], wanted]
        found = self._found(job)
        if found not in may_be:
            self.wrong.append(f"{number}: after {kind}, {job} has neither the old nor the new one")
        self._may_be[job] = may_be
        self.seen[kind, "new" if found == wanted else "old"] += 1

    def _ended(self, number: int, kind: str, deploying: "subprocess.Popen[bytes]") -> bool:
        """Whether it went through; one that does not end at all is wrong."""
        try:
            return deploying.wait(ENDED_WITHIN_S) == 0
        except subprocess.TimeoutExpired:
            self.wrong.append(f"{number}: after {kind} the deploy never ended")
            deploying.kill()
            deploying.wait()
            return False

    def end(self) -> None:
        """With nothing in the way both go through, and nothing of the killed ones is left."""
        self._free()
        self._orch("prune")
        for job, folder in (("plain", "/srv/plain"), ("small", f"{DISK}/small")):
            self._ready(job)
            self._edit(-1)
            self._whole(job)
            if rest := leftovers(self._lab[CONTAINER].root / folder[1:]):
                self.wrong.append(f"{job}: left over: {', '.join(rest)}")
        self._orch("daemon", "stop")

    def _whole(self, job: str) -> None:
        said = self._orch("deploy", job)
        wanted = tree_of(self._package)
        if said.returncode or self._found(job) != wanted:
            self.wrong.append(f"{job}: a deploy with nothing in its way failed: {said.stderr}")
        self._may_be[job] = [wanted]

    def _cut_at(self, carried: int, deploying: "subprocess.Popen[bytes]") -> None:
        """Cut the link for a moment once the proxy has carried so much."""
        while self._proxy.carried_bytes < carried and deploying.poll() is None:
            time.sleep(0.001)
        self.late["transfer"] += deploying.poll() is not None
        self._proxy.cut()
        time.sleep(CUT_S)
        self._proxy.restore()

    def _edit(self, number: int, size: int = PACKAGE_BYTES) -> None:
        """Another version: one file changed, one new, one gone, one large."""
        (self._package / "part0" / "m0.py").write_text(f"LAYERS = {number}\n" * 400)
        (self._package / f"new{number}.py").write_text(f"x = {number}\n")
        for path in self._package.glob("new*.py"):
            if path.name != f"new{number}.py":
                path.unlink()
        (self._package / "weights.bin").write_bytes(self._random.randbytes(size))

    def _ready(self, job: str) -> None:
        """A daemon that runs and a link that is there."""
        deadline = time.monotonic() + READY_WITHIN_S
        while (said := self._orch("deploy", "--dry-run", job)).returncode:
            if time.monotonic() > deadline:
                raise SystemExit(f"no daemon and link again within a minute: {said.stderr}")

    def _hit(self, kind: str) -> None:
        container = self._lab[CONTAINER]
        match kind:
            case "daemon":
                if (pid := self._daemon()) is not None:
                    _end(pid)
            case "link":
                for pid in cgroups.pids(self._lab.host.cgroup):
                    if _command_line(pid).startswith(b"sshd: root"):
                        _end(pid)
            case _:
                container.stop()
                container.start()
                container.mount_small_disk(DISK, DISK_BYTES)
                self._may_be["small"] = [{}]

    def _fill(self) -> None:
        """Leave less room than the package needs, or a little more."""
        self._free()
        self._orch("prune")
        disk = self._lab[CONTAINER].root / DISK[1:]
        found = os.statvfs(disk)
        room = found.f_bavail * found.f_frsize
        left = self._random.randint(0, int(1.5 * PACKAGE_BYTES))
        (disk / "filler").write_bytes(bytes(max(room - left, 0)))

    def _free(self) -> None:
        (self._lab[CONTAINER].root / DISK[1:] / "filler").unlink(missing_ok=True)

    def _found(self, job: str) -> Tree:
        """The release that `current` names now; nothing before the first."""
        root = self._lab[CONTAINER].root
        workdir = root / ("srv/plain" if job == "plain" else f"{DISK[1:]}/small")
        try:
            release = os.readlink(workdir / "current")
        except FileNotFoundError:
            return {}
        return tree_of(workdir / release / "package")

    def _daemon(self) -> int | None:
        for path in Path(self._env["XDG_STATE_HOME"]).glob("orch/*/daemon.json"):
            return int(json.loads(path.read_bytes())["pid"])
        return None

    def _orch(self, *words: str) -> "subprocess.CompletedProcess[str]":
        argv = [*ORCH, "--config", str(self._inventory), *words]
        return subprocess.run(
            argv, env=self._env, capture_output=True, text=True, check=False, timeout=ENDED_WITHIN_S
        )

    def _start(self, job: str) -> "subprocess.Popen[bytes]":
        argv = [*ORCH, "--config", str(self._inventory), "deploy", job]
        quiet = subprocess.DEVNULL
        return subprocess.Popen(argv, env=self._env, stdout=quiet, stderr=quiet)


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""  # it has ended


def _end(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def main(options: argparse.Namespace) -> int:
    """All kills in one lab; what was found is printed."""
    with (
        Lab.start(containers=(CONTAINER,)) as lab,
        TcpProxy(lab.host.address, lab.host.port) as proxy,
        tempfile.TemporaryDirectory() as folder,
    ):
        kills = Kills(lab, proxy, Path(folder), options.seed)
        takes_s = kills.prepare()
        for number in range(2, options.kills + 2):
            kills.kill(number, takes_s)
        kills.end()
    for kind in KINDS:
        old, new, late = kills.seen[kind, "old"], kills.seen[kind, "new"], kills.late[kind]
        print(
            f"{kind}: {old + new} times, {late} too late; the old release {old}, the new {new};"
            f" {kills.longest_s[kind]:.1f} s at most"
        )
    print(
        "\n".join(kills.wrong) or f"all whole; seed {options.seed}, a deploy took {takes_s:.2f} s"
    )
    return 1 if kills.wrong else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.deploy.kills")
    parser.add_argument("kills", metavar="N", nargs="?", type=int, default=100)
    parser.add_argument("--seed", metavar="N", type=int, default=6)
    sys.exit(main(parser.parse_args()))
