"""The cable between the machine and a host that has a network namespace of its own.

Owns one veth pair and its /30; nothing else of the lab can tell how a host is reached.
"""

from __future__ import annotations

import subprocess

NOBODY = "lladdr 02:00:00:00:00:01 nud permanent"


class Cable:
    """Named NAME on the machine and NAMEi in the namespace of process PID."""

    def __init__(self, name: str, pid: int) -> None:
        """Plug it in and give both ends an address; raises CalledProcessError."""
        self.outer, self.inner = name, f"{name}i"
        self.is_cut = False
        self._pid = pid
        subnet = _free_subnet()
        self.address = f"{subnet}.2"
        """of the host, as the machine reaches it"""
        self._machine = f"{subnet}.1"
        for line in (
            f"link add {name} type veth peer name {self.inner} netns {pid}",
            f"addr add {subnet}.1/30 dev {name}",
            f"link set {name} up",
        ):
            _ip(line.split())
        self._inside(f"addr add {self.address}/30 dev {self.inner}")
        self._inside(f"link set {self.inner} up")

    def cut(self) -> None:
        """Let packets vanish both ways without a word."""
        # An end that is down would be told to its own kernel, which then tries again at once when
        # it is up; a far end of another Ethernet address is told to nobody, as on a real way.
        _ip(f"neigh replace {self.address} {NOBODY} dev {self.outer}".split())
        self._inside(f"neigh replace {self._machine} {NOBODY} dev {self.inner}")
        self.is_cut = True

    def restore(self) -> None:
        """Let packets through again."""
        if self.is_cut:
            _ip(f"neigh del {self.address} dev {self.outer}".split())
            self._inside(f"neigh del {self._machine} dev {self.inner}")
        self.is_cut = False

    def _inside(self, line: str) -> None:
        _ip(line.split(), "nsenter", "-t", str(self._pid), "--net", "--")


def _ip(words: list[str], *before: str) -> None:
    subprocess.run([*before, "ip", *words], check=True, capture_output=True)


def _free_subnet() -> str:
    """First three numbers of a subnet that nothing here uses, from the range for benchmarks."""
    known = subprocess.run(["ip", "-4", "addr"], capture_output=True, text=True, check=True).stdout
    for third in range(256):
        if f" 198.18.{third}." not in known:
            return f"198.18.{third}"
    raise RuntimeError("all 256 subnets for labs are in use; end other labs first")
