"""The first inventory of a person: what was found, and what else could stand there, commented."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from orchestrator.core.model import Host, Target
from orchestrator.core.parse.survey import Survey

SCHEMA_NAME = "inventory.schema.json"
"""Where an editor finds the schema: beside the inventory."""
_SCRIPTS = ("train.py", "main.py", "run.py")
_NO_SCRIPTS = frozenset({"setup.py", "conftest.py"})
_NO_PROGRAMS = frozenset({"tests", "test", "docs"})
_REQUIREMENTS = "requirements.txt"
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")

_TAIL = """\
alerts:
  sinks:
    ops:                            # `orch alert test ops` sends one; unset variables are no error
      type: webhook
      url_env: ORCH_WEBHOOK_URL     # export ORCH_WEBHOOK_URL=https://...
      # signs what is sent: "whsec_$(openssl rand -base64 24)"; without this line it is not signed
      secret_env: ORCH_WEBHOOK_SECRET
    # phone: {type: apprise, url_env: ORCH_APPRISE_URL}    # Slack, ntfy, mail and a hundred more
  routes:
    - {match: {}, to: [ops]}        # everything; {match: {severity: critical}, ...} narrows it
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One target, and what was seen on it."""

    target: Target
    survey: Survey


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What is to be trained with, as far as a folder shows it."""

    package: str = "trainer"
    """The folder that is shipped: one beside the inventory, or the inventory's own."""
    script: str | None = None
    """The file in it that is run; None for a folder that runs as a module."""
    has_requirements: bool = False
    """Whether its requirements.txt says what it needs."""

    @property
    def command(self) -> str:
        """What starts it."""
        return f"python3 {self.script}" if self.script else f"python3 -m {self.package}"


def program_in(files: Collection[str]) -> Program | None:
    """The program that a folder has, by the relative names of its files; None where none is seen.

    A folder with a __main__.py comes before a script, train.py before the others. What builds or
    tests a program is none, nor is what a shell would not take as one word.
    """
    folders = sorted(
        folder
        for folder, sign, rest in (name.partition("/") for name in files)
        if sign and rest == "__main__.py" and folder not in _NO_PROGRAMS and set(folder) <= _PLAIN
    )
    scripts = sorted(
        name
        for name in files
        if name.endswith(".py") and name not in _NO_SCRIPTS and set(name) <= _PLAIN | {"."}
    )
    known = [name for name in _SCRIPTS if name in scripts]
    if folders:
        return Program(
            package=folders[0], has_requirements=f"{folders[0]}/{_REQUIREMENTS}" in files
        )
    if not known and len(scripts) != 1:
        return None
    return Program(
        package=".", script=(known or scripts)[0], has_requirements=_REQUIREMENTS in files
    )


def target_names(found: Sequence[Found]) -> list[str]:
    """A name for each: two hosts may both have a container 200, which are HOST-ct200 then."""
    hosts = _host_names(found)
    bare = [_bare_name(one.target, hosts) for one in found]
    return _each_once(
        f"{hosts[one.target.host]}-{name}"
        if one.target.container and bare.count(name) > 1
        else name
        for one, name in zip(found, bare, strict=True)
    )


def starter(found: Sequence[Found], *, program: Program | None, daemon: str) -> str:
    """YAML of an inventory with these targets, and a job that waits to be filled in.

    `daemon` is where the daemon will live.
    """
    lines = [
        f"# yaml-language-server: $schema={SCHEMA_NAME}",
        "# What orch knows of your machines: hosts are reached, targets are where commands run,",
        "# jobs are what you want running there. `orch doctor` checks all of it.",
        f"# The daemon lives {daemon}: alerts and relaunches need it, runs go on without it.",
        "version: 1",
        "",
        "hosts:",
    ]
    hosts = _host_names(found)
    for host, name in hosts.items():
        settings = {
            "transport": "local" if host.transport == "local" else None,
            "hostname": None if host.hostname == name else host.hostname,
            "port": str(host.port) if host.port else None,
            "user": host.user,
        }
        said = ", ".join(f"{key}: {_quoted(value)}" for key, value in settings.items() if value)
        lines.append(f"  {name}: {{{said}}}")
    lines += ["", "targets:"]
    names = target_names(found)
    for name, one in zip(names, found, strict=True):
        lines += _target(name, one, hosts[one.target.host])
    lines += ["", *_job(names[0], found[0], program), "", *_TAIL.splitlines()]
    return "\n".join(lines) + "\n"


def name_of(word: str) -> str:
    """A word as a name of the inventory: `root@10.1.2.6` is host 10-1-2-6."""
    bare = word.rpartition("@")[2].strip("[]")
    return "".join(char if char in _PLAIN else "-" for char in bare).strip("-_") or "host"


def _host_names(found: Sequence[Found]) -> dict[Host, str]:
    """The hosts, and what each is called: gpu-1 and gpu.1 are two."""
    hosts = list(dict.fromkeys(one.target.host for one in found))
    return dict(zip(hosts, _each_once(name_of(host.name) for host in hosts), strict=True))


def _bare_name(target: Target, hosts: dict[Host, str]) -> str:
    """`ct200` for container 200, else the container's or the host's own name."""
    if target.container is None:
        return hosts[target.host]
    return f"ct{target.container}" if target.container.isdigit() else name_of(target.container)


def _each_once(names: Iterable[str]) -> list[str]:
    """The same names, each that was there before with -2 and so on."""
    taken: list[str] = []
    for name in names:
        free = (name, *(f"{name}-{number}" for number in range(2, len(taken) + 3)))
        taken.append(next(one for one in free if one not in taken))
    return taken


def _target(name: str, one: Found, host: str) -> list[str]:
    target, survey = one.target, one.survey
    inside = ""
    if target.container is not None:
        inside = f", runtime: {target.runtime}, container: {_quoted(target.container)}"
    seen = [f"{len(survey.gpus)} x {survey.gpus[0]}"] if survey.gpus else ["no GPU seen"]
    seen.append(f"Python {survey.python}" if survey.python else "no python3: plain shell only")
    seen.append(f"tmux {survey.tmux}" if survey.tmux else "no tmux: install it there")
    lines = [
        f"  # {', '.join(seen)}",
        f"  {name}: {{host: {host}{inside}}}",
    ]
    if survey.sessions:
        names = ", ".join(survey.sessions[:8])
        lines.append(f"  #   tmux sessions now: {names}; `orch adopt` follows one")
    return lines


def _job(target: str, first: Found, program: Program | None) -> list[str]:
    # A session that lives is somebody's: the job gets a name that nobody has.
    names = ("train", *(f"train-{number}" for number in range(2, len(first.survey.sessions) + 3)))
    session = next(name for name in names if name not in first.survey.sessions)
    shown = program or Program()
    gpus = "gpus_idle: true, " if first.survey.gpus else ""
    other = " # or `python3 train.py`: run inside that folder" if program is None else ""
    setup = f"setup: {{requirements: {_REQUIREMENTS}}}   # into a venv that is made once"
    return [
        "# jobs:",
        "#   train:",
        f"#     target: {target}",
        f"#     package: {shown.package:<20} # the folder that is shipped; .gitignore is obeyed",
        "#     workdir: /srv/orch/train      # on the target; releases and runs live here",
        f"#     command: {shown.command:<20}{other}".rstrip(),
        f"#     {'' if shown.has_requirements else '# '}{setup}",
        f"#     session: {session:<20} # `tmux attach -t {session}` there shows the run",
        "#     watch:",
        "#       output_within: 10m          # silence that long, and a second witness, is a hang",
        "#       stop_on: [thread_death]",
        "#       # what a program prints, where it writes no metrics.jsonl:",
        r"#       # metrics: {step: 'step[ =:]+(?P<value>\d+)', loss: 'loss[ =:]+(?P<value>\S+)'}",
        f"#     preflight: {{{gpus}min_free_disk: 5GiB}}",
        "#     # secrets: [HF_TOKEN]         # names of variables, never values",
        "#     restart: {on: [infra, cuda_ecc], max_attempts: 3, within: 6h, backoff: 30s}",
    ]


def _quoted(word: str) -> str:
    return word if set(word) <= _PLAIN | {"."} else f'"{word}"'
