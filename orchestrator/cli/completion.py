"""completion and manual: a script for a shell, and the manual page, both made from the parser.

The script asks `orch completion names KIND` for what changes: runs, jobs, targets, incidents. It
never starts a daemon; without one, jobs and targets are read from the inventory.
"""

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from orchestrator.cli.command import KINDS
from orchestrator.cli.parser import build_parser
from orchestrator.core.errors import OrchError

if TYPE_CHECKING:
    from orchestrator.api.client import Client

NAMES = "names"
SHORT = "training runs in remote containers: deployed, launched, watched, diagnosed"
"""What `whatis orch` says."""
MOST_BY_AGE = 3
"""So many of the newest runs are offered as @1, @2, ..."""
MOMENTS = (
    *("ended", "crashed", "incident", "step:", "log:"),
    *(f"phase:{name}" for name in ("compile", "train", "checkpoint", "eval")),
)
"""What `wait --until` takes, as far as it can be listed; a metric has any name."""
_ASK = "orch completion names"


def completion(options: argparse.Namespace) -> int:
    """Print the completion script of a shell, or the names of a kind, one a line."""
    if options.shell == NAMES:
        for name in names(options):
            print(name)
        return 0
    import shtab

    print(shtab.complete(_with_names(build_parser()), shell=options.shell))
    return 0


def manual(options: argparse.Namespace) -> int:
    """Print the manual page, as `man -l -` reads it."""
    del options
    from argparse_manpage.manpage import Manpage

    parser = build_parser()
    parser.man_short_description = SHORT  # type: ignore[attr-defined]  # argparse_manpage's own
    page = Manpage(parser)
    page.manual = "orch"
    print(page)
    return 0


def names(options: argparse.Namespace) -> list[str]:
    """What a word of a kind may be now; nothing where that cannot be told."""
    try:
        return sorted(set(_names(options)))
    except OrchError:
        return []  # a completion must not print what is wrong into the line being typed


def _names(options: argparse.Namespace) -> Iterator[str]:
    from orchestrator.api.client import Client
    from orchestrator.api.location import daemon_socket
    from orchestrator.cli.reach import location_of
    from orchestrator.cli.targets import ssh_aliases

    kind = options.kind
    if kind in {"targets", "hosts"}:
        yield from ssh_aliases()
    if kind == "moments":
        yield from MOMENTS
    elif kind == "signatures":
        yield from _signatures(options)
    elif kind in {"jobs", "targets", "hosts", "sinks", "places"}:
        yield from _declared(options, kind)
    else:
        yield from _living(Client(daemon_socket(location_of(options))), kind)


def _living(client: "Client", kind: str) -> Iterator[str]:
    """What a daemon knows: runs by id, by job and by age; where an incident is meant, those too."""
    if kind == "silences":
        yield from (one["id"] for one in client.get("/v1/silences")["silences"] if one["id"])
        return
    if kind == "incidents":
        yield from (one["id"] for one in client.get("/v1/incidents")["incidents"])
    for nth, run in enumerate(client.get("/v1/runs")["runs"], start=1):
        yield from (run["id"], run["job"])
        yield from (f"@{nth}",) if nth <= MOST_BY_AGE else ()


def _signatures(options: argparse.Namespace) -> Iterator[str]:
    from orchestrator.cli.targets import inventory_of
    from orchestrator.core.detect.samples import SAMPLES

    yield from (name for name, samples in SAMPLES.items() if samples.positive)
    inventory = inventory_of(options)
    yield from (str(rule["id"]) for rule in (inventory.rules if inventory else ()))


def _declared(options: argparse.Namespace, kind: str) -> list[str]:
    from orchestrator.cli.targets import inventory_of

    inventory = inventory_of(options)
    if inventory is None:
        return []
    found: Any = {
        "jobs": inventory.jobs,
        "targets": inventory.targets,
        "hosts": {**inventory.hosts, **inventory.targets},
        "sinks": [sink.name for sink in inventory.alerts.sinks],
        "places": [f"{name}:" for name in inventory.targets],
    }
    return list(found[kind])


# --- the script ----------------------------------------------------------------------------------


def _with_names(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    import shtab

    for action in _actions(parser):
        if action.metavar in KINDS:
            action.complete = _complete(KINDS[str(action.metavar)])  # type: ignore[attr-defined]  # shtab's own attribute
        elif action.metavar == "FILE":
            action.complete = shtab.FILE  # type: ignore[attr-defined]  # as above
    return parser


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from _actions(below)
        else:
            yield action


def _complete(kind: str) -> dict[str, Any]:
    """shtab's word for a completer: a function of the shell that asks us at each Tab."""
    function, ask = f"_orch_names_{kind}", f"{_ASK} {kind} 2>/dev/null"
    # A place is a path here or one behind a target's name; only bash has to be told of paths.
    files = {"bash": ' $(compgen -f -- "$1")', "zsh": "; _files"} if kind == "places" else {}
    return {
        "bash": function,
        "zsh": function,
        "fish": f"({ask})",
        "tcsh": f"`{_ASK} {kind}`",
        "preamble": {
            "bash": f'{function}() {{ compgen -W "$({ask}){files.get("bash", "")}" -- "$1"; }}',
            "zsh": f'{function}() {{ compadd -- ${{(f)"$({ask})"}}{files.get("zsh", "")}; }}',
        },
    }
