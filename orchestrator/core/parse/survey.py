"""What a machine says of itself to `orch init`: its containers, GPUs, tmux sessions, Python."""

from collections.abc import Mapping
from dataclasses import dataclass

_MARK = "@@ "

SCRIPT = """
say() { printf '\\n@@ %s\\n' "$1"; }
say pct; pct list
say lxc; lxc-ls -1 --running
say incus; incus list --format csv -c n status=running
say lxd; lxc list --format csv -c n status=running
say docker; docker ps --format '{{.Names}}'
say podman; podman ps --format '{{.Names}}'
say gpus; nvidia-smi -L
say sessions; tmux list-sessions -F '#{session_name}'
say python; python3 -V
say tmux; tmux -V
exit 0
"""
"""For `sh -c`; changes nothing. A program that is not there just says nothing."""

_RUNTIMES = ("pct", "lxc", "incus", "lxd", "docker", "podman")


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What was found; containers as (runtime, id), those that run only."""

    containers: tuple[tuple[str, str], ...] = ()
    gpus: tuple[str, ...] = ()
    """Their models, one for each."""
    sessions: tuple[str, ...] = ()
    python: str | None = None
    tmux: str | None = None


def parse_survey(text: str) -> Survey:
    """The output of SCRIPT."""
    parts = _parts(text)
    containers = [("pct", name) for name in _pct(parts.get("pct", []))]
    for runtime in _RUNTIMES[1:]:
        # What pct knows, lxc-ls lists as well.
        if runtime != "lxc" or not containers:
            names = (line.strip() for line in parts.get(runtime, []))
            containers += [(runtime, name) for name in names if name and " " not in name]
    return Survey(
        containers=tuple(containers),
        gpus=tuple(_gpu(line) for line in parts.get("gpus", []) if line.startswith("GPU ")),
        sessions=tuple(line for line in parts.get("sessions", []) if line),
        python=_word(parts, "python", "Python "),
        tmux=_word(parts, "tmux", "tmux "),
    )


def _parts(text: str) -> dict[str, list[str]]:
    parts: dict[str, list[str]] = {}
    name = ""
    for line in text.splitlines():
        if line.startswith(_MARK):
            name = line.removeprefix(_MARK)
        elif line.strip():
            parts.setdefault(name, []).append(line.rstrip())
    return parts


def _pct(lines: list[str]) -> list[str]:
    """Ids of `pct list`: VMID Status [Lock] Name."""
    rows = [line.split() for line in lines]
    return [row[0] for row in rows if len(row) > 1 and row[0].isdigit() and row[1] == "running"]


def _gpu(line: str) -> str:
    """`NVIDIA H100` of `GPU 0: NVIDIA H100 (UUID: GPU-...)`."""
    return line.partition(": ")[2].partition(" (")[0]


def _word(parts: Mapping[str, list[str]], part: str, before: str) -> str | None:
    lines = [line for line in parts.get(part, []) if line.startswith(before)]
    return lines[0].removeprefix(before) if lines else None
