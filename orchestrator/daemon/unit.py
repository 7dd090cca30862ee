"""The systemd user unit of an inventory's daemon, as text; pure."""

from collections.abc import Mapping

from orchestrator.api.location import Location
from orchestrator.core.errors import UsageError

KEPT = ("PATH", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "TMUX_TMPDIR")
"""Variables that decide where the daemon finds its things; a unit has none of the shell's."""


def unit_name(location: Location) -> str:
    """One unit for each inventory."""
    return f"orch-{location.state_folder.name}.service"


def unit_text(location: Location, python: str, environ: Mapping[str, str]) -> str:
    """The unit file; UsageError where a path cannot be written in one.

    KillMode=process: a run of a local target lives in the unit's cgroup and must outlive it.
    """
    command = [python, "-m", "orchestrator", "--config", str(location.inventory), "daemon", "run"]
    kept = [f"{name}={environ[name]}" for name in KEPT if environ.get(name)]
    lines = [
        "[Unit]",
        f"Description=orch for {_text(str(location.inventory))}",
        "",
        "[Service]",
        f"ExecStart={' '.join(map(_quoted, command))}",
        *(f"Environment={_quoted(one)}" for one in kept),
        f"WorkingDirectory={_text(str(location.inventory.parent))}",
        "Restart=on-failure",
        "RestartSec=2",
        "KillMode=process",
        "",
        "[Install]",
        "WantedBy=default.target",
    ]
    return "\n".join(lines) + "\n"


def _text(value: str) -> str:
    if any(not char.isprintable() for char in value):
        raise UsageError(
            f"{value!r} cannot be written in a unit.", remedy="Move the inventory to a plain path."
        )
    return value.replace("%", "%%")


def _quoted(word: str) -> str:
    """A word that systemd reads back as it is: no specifier, no variable, no escape."""
    escaped = _text(word).replace("\\", "\\\\").replace('"', '\\"').replace("$", "$$")
    return f'"{escaped}"'
