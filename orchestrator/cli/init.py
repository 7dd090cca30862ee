"""init: look around, ask little, and write an inventory where there is none.

Never overwrites. On a terminal it asks what was not said; elsewhere the flags must say it.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from orchestrator.api.location import INVENTORY_NAME
from orchestrator.cli import output
from orchestrator.cli.asking import choose
from orchestrator.cli.direct import on_target
from orchestrator.cli.main import complain
from orchestrator.cli.targets import ssh_aliases
from orchestrator.core.adhoc import LOCAL, find_target
from orchestrator.core.command import Command
from orchestrator.core.errors import TargetError, UsageError
from orchestrator.core.inventory.build import parse_inventory
from orchestrator.core.inventory.shape import json_schema
from orchestrator.core.model import Target
from orchestrator.core.parse.survey import SCRIPT, Survey, parse_survey
from orchestrator.core.starter import SCHEMA_NAME, Found, program_in, starter, target_names
from orchestrator.transport.base import Transport

HERE = "on this machine"
MOST_SHOWN = 20


class Ask(Protocol):
    """Who answers a question: one of the choices, or, where `others`, any other word."""

    def __call__(
        self, question: str, choices: Sequence[str], otherwise: str, /, *, others: bool = False
    ) -> str:
        """The answer; UsageError where there is nobody to give it."""
        ...


def init(options: argparse.Namespace) -> int:
    """Write an inventory with the hosts and containers that were said, or chosen."""
    path = Path(getattr(options, "config", None) or INVENTORY_NAME)
    if path.exists():
        raise UsageError(
            f"{path} is there already, and was left as it is.",
            remedy="`orch doctor` checks it; --config FILE writes another one.",
        )
    if not path.parent.is_dir():
        raise UsageError(
            f"{path}: there is no folder {path.parent}.", remedy="Make it first, or name another."
        )
    ask = _asker(options)
    if options.host:
        said = [one for host in options.host for one in _look_around(host, options, ask)]
    else:
        said = _at_a_host_that_is_asked_for(options, ask)
    found = list({(one.target.host.name, one.target.container): one for one in said}.values())
    daemon = options.daemon or _daemon(found, ask)
    program = program_in(_files(path.parent))
    text = starter(found, program=program, daemon=daemon)
    _checked(text, path)
    with path.open("x", encoding="utf-8") as file:
        file.write(text)
    _write_schema(path.parent / SCHEMA_NAME)
    names = ", ".join(target_names(found))
    job = "fill in the job in it" if program is None else f"its job runs `{program.command}`"
    output.say(
        f"{path} has the targets {names}",
        f"next: {job}, take the `# ` off its lines, then `orch doctor`",
    )
    if daemon != HERE:
        output.say(f"the daemon is to live {daemon}: put this folder there and call orch there")
    return 0


def _at_a_host_that_is_asked_for(options: argparse.Namespace, ask: Ask) -> list[Found]:
    """What is there; a person whose word was no host, or one that is away, is asked again."""
    while True:
        host = ask("Which host?", [*ssh_aliases(), LOCAL], LOCAL, others=True)
        try:
            return _look_around(host, options, ask)
        except (UsageError, TargetError) as error:
            if not _person_is_here(options):
                raise
            complain(error)


def _look_around(host: str, options: argparse.Namespace, ask: Ask) -> list[Found]:
    """The host's containers that are wanted, or the host itself."""
    itself = find_target(host, None, ())
    if itself.container is not None:
        return [Found(target=itself, survey=_survey(itself))]
    survey = _survey(itself)
    there = [f"{runtime}:{name}" for runtime, name in survey.containers]
    _tell(host, survey, there)
    wanted = [_full(word, there, host) for word in options.container]
    if not wanted and there:
        said = ask(f"Which container of {host}? (all, none)", [*there, "all", "none"], "all")
        wanted = [] if said == "none" else there if said == "all" else [_full(said, there, host)]
    if not wanted:
        return [Found(target=itself, survey=survey)]
    targets = [find_target(f"{host}/{word}", None, ()) for word in wanted]
    return [Found(target=target, survey=_survey(target)) for target in targets]


def _full(word: str, there: Sequence[str], host: str) -> str:
    """`pct:200` for `200`, by what was found."""
    matching = [one for one in there if word in {one, one.partition(":")[2]}]
    if not matching:
        raise UsageError(
            f"{host} has no running container {word}.",
            remedy=f"It has {', '.join(there) or 'none that its runtimes list'}.",
        )
    return matching[0]


def _survey(target: Target) -> Survey:
    async def look(transport: Transport) -> str:
        done = await transport.run(Command(argv=("/bin/sh", "-c", SCRIPT)), timeout_s=60.0)
        return done.stdout.decode("utf-8", "replace")

    return parse_survey(on_target(target, look))


def _tell(host: str, survey: Survey, there: Sequence[str]) -> None:
    shown = ", ".join(there[:MOST_SHOWN]) or "none"
    output.say(
        f"{host}: {len(survey.gpus)} GPUs, containers: {shown}, "
        f"tmux sessions: {', '.join(survey.sessions) or 'none'}"
    )


def _daemon(found: Sequence[Found], ask: Ask) -> str:
    hosts = [one.target.host for one in found if one.target.host.transport != LOCAL]
    places = [HERE, *dict.fromkeys(f"on {host.name}" for host in hosts)]
    if len(places) == 1:
        return HERE
    if any(Path("/sys/class/power_supply").glob("BAT*")):
        output.say("This machine has a battery: while it sleeps, nobody watches and nobody alerts.")
    return ask("Where shall the daemon live?", places, HERE)


def _asker(options: argparse.Namespace) -> Ask:
    """Who answers: the flag --yes, a person, or nobody."""
    if options.yes:
        return _proposed
    return choose if _person_is_here(options) else _nobody


def _person_is_here(options: argparse.Namespace) -> bool:
    return not options.yes and sys.stdin.isatty() and sys.stdout.isatty()


def _proposed(
    _question: str,
    _choices: Sequence[str],
    otherwise: str,
    *,
    others: bool = False,  # noqa: ARG001 - Ask's
) -> str:
    return otherwise


def _nobody(
    question: str,
    _choices: Sequence[str],
    otherwise: str,
    *,
    others: bool = False,  # noqa: ARG001 - Ask's
) -> str:
    raise UsageError(
        f"{question} Nobody is here to answer.",
        remedy="Say --host HOST, --container ID and --daemon WHERE, or --yes for "
        f"{otherwise} and what it would choose further.",
    )


def _files(folder: Path) -> set[str]:
    """The names that tell what program a folder has: its own and those one folder down."""
    found = [*folder.glob("*.*"), *folder.glob("*/__main__.py"), *folder.glob("*/requirements.txt")]
    return {str(path.relative_to(folder)) for path in found if path.is_file()}


def _write_schema(path: Path) -> None:
    """Put the schema where the inventory's first line says, so that an editor marks its faults."""
    path.write_text(f"{json.dumps(json_schema(), indent=2)}\n", encoding="utf-8")


def _checked(text: str, path: Path) -> None:
    """What we write must be good by our own measure."""
    parse_inventory(
        text.encode(),
        path=str(path),
        folder=str(path.parent.resolve()),
        exists=lambda folder: Path(folder).is_dir(),
        home=str(Path.home()),
    )
