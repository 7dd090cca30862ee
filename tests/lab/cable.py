"""The cable between the machine and a host that has a network namespace of its own.

Owns one veth pair and its /30; nothing else of the lab can tell how a host is reached.
"""

from __future__ import annotations

import subprocess


class Cable:
    """Named NAME on the machine and NAMEi in the namespace of process PID."""

    def __init__(self, name: str, pid: int) -> None:
        """Plug it in and give both ends an address; raises CalledProcessError."""
        self.inner = f"{name}i"
        self.is_cut = False
        self._pid = pid
        subnet = _free_subnet()
        self.address = f"{subnet}.2"
        """of the host, as the machine reaches it"""
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
        # The inner end goes down: the machine keeps its route, so no packet takes another way.
        self._inside(f"link set {self.inner} down")
        self.is_cut = True

    def restore(self) -> None:
        """Let packets through again."""
        self._inside(f"link set {self.inner} up")
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
