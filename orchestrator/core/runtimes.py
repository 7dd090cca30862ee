"""How a command is wrapped to run inside a container: a table, one line a runtime.

Owns the words of pct, lxc-attach, incus, lxc, docker and podman, of sudo, and of the `ssh -t`
that `orch attach` execs. Joins no shell strings itself (command.py) and runs nothing.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from orchestrator.core.command import Command, as_argv, entering, shell_line
from orchestrator.core.model import Host, Target

_SUDO = ("sudo", "-n")
"""Never asks: a password prompt on a pipe would wait for ever."""

IMPATIENT = (
    *("-o", "ConnectTimeout=20"),
    *("-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=4"),
)
"""Options of `ssh`: a host that accepts and says nothing, or falls silent, is given up after 20 s.

The daemon's own connections wait as long; ssh by itself waits for ever.
"""

_TERMINAL = 'infocmp >/dev/null 2>&1 || TERM=xterm-256color; export TERM; exec "$@"'
"""A container often lacks the terminfo entry of a newer terminal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """One way into a container; `{container}` and `{user}` stand in the words."""

    program: str
    words: tuple[str, ...]
    on_terminal: tuple[str, ...] | None = None
    """Words for an interactive command; None: the same, the runtime looks at its stdin itself."""
    absent: str | None = None
    """Pattern of what it says of a container that the host has not."""
    shut: str
    """The same of one that does not run, or where it does not tell the two apart."""
    listing: str
    """The words that list what the host has."""


def _like_incus(program: str) -> Runtime:
    """incus, and lxd that it was forked from."""
    return Runtime(
        program=program,
        words=("exec", "{container}", "--"),
        absent="Error: .*[Nn]ot found",
        shut="Instance is not running",
        listing=f"{program} list",
    )


def _like_docker(program: str, *, absent: str, shut: str) -> Runtime:
    """docker, and podman that takes its words but says what is wrong in its own."""
    user = ("-u", "{user}", "{container}")
    return Runtime(
        program=program,
        words=("exec", "-i", *user),
        on_terminal=("exec", "-i", "-t", *user),
        absent=absent,
        shut=shut,
        listing=f"{program} ps -a",
    )


RUNTIMES: Mapping[str, Runtime | None] = {
    "none": None,
    "pct": Runtime(
        program="pct",
        words=("exec", "{container}", "--"),
        absent="/lxc/{container}\\.conf' does not exist",
        shut="(CT|container) '?{container}'? (is )?not running",
        listing="pct list",
    ),
    "lxc": Runtime(
        program="lxc-attach",
        words=("-n", "{container}", "--"),
        shut="Failed to get init pid",
        listing="lxc-ls --fancy",
    ),
    "incus": _like_incus("incus"),
    "lxd": _like_incus("lxc"),
    "docker": _like_docker(
        "docker",
        absent="No such container: {container}",
        shut="container \\S+ is not running",
    ),
    "podman": _like_docker(
        "podman",
        absent='no container with name or ID "?{container}"? found',
        shut="can only create exec sessions on running containers",
    ),
}
"""`none`: the host itself."""


def wrap(target: Target, command: Command, *, on_terminal: bool = False) -> Command:
    """The command to run on the target's host so that `command` runs on the target.

    With `become: sudo` the program behind sudo is the runtime's own, so that a sudoers line
    for it alone is enough.
    """
    runtime = RUNTIMES[target.runtime]
    if runtime is None:
        return _on_host(target, command)
    words = runtime.on_terminal if on_terminal and runtime.on_terminal else runtime.words
    names = {"container": target.container or target.name, "user": target.user}
    program = target.host.runtime_path or runtime.program
    inside = entering(command, target.user)
    sudo = (*_SUDO, "--") if target.host.become == "sudo" else ()
    return Command(argv=(*sudo, program, *(word.format(**names) for word in words), *inside))


def no_way_in(target: Target, said: str) -> tuple[str, str] | None:
    """What a runtime's own words mean: its container is not there or does not run; a remedy.

    None where `said` is about something else.
    """
    runtime = RUNTIMES[target.runtime]
    if runtime is None:
        return None
    container, host = target.container or target.name, target.host.name
    listing = f"`orch exec {host} -- {runtime.listing}` lists what it has."
    name = re.escape(container)
    if runtime.absent and re.search(runtime.absent.replace("{container}", name), said):
        return f"Container {container} is not on host {host}.", listing
    if re.search(runtime.shut.replace("{container}", name), said):
        return f"Container {container} does not run on host {host}, or is not there.", listing
    return None


def _on_host(target: Target, command: Command) -> Command:
    if target.host.become != "sudo":
        return command
    return Command(argv=(*_SUDO, "-H", "-u", target.user, "--", *as_argv(command)))


def ssh_words(host: Host) -> tuple[str, ...]:
    """What the inventory says of a host, as options of `ssh`; the rest is ~/.ssh/config's."""
    words: list[str] = []
    if host.port is not None:
        words += ["-p", str(host.port)]
    if host.user is not None:
        words += ["-l", host.user]
    if host.identity_file is not None:
        words += ["-i", host.identity_file]
    if host.known_hosts is not None:
        words += ["-o", f'UserKnownHostsFile="{host.known_hosts}"']
    if host.proxy_jump is not None:
        words += ["-J", host.proxy_jump]
    return tuple(words)


def ssh_destination(host: Host) -> str:
    """The name that ssh resolves: an alias of ~/.ssh/config, a DNS name or an address."""
    return host.hostname or host.name


def tmux_words(socket: str | None) -> tuple[str, ...]:
    """tmux with its socket: a path (`-S`) where there is a slash, else a name (`-L`)."""
    if socket is None:
        return ("tmux", "-u")
    return ("tmux", "-u", "-S" if "/" in socket else "-L", socket)


def attach_argv(target: Target, session: str, *, term: str = "xterm-256color") -> tuple[str, ...]:
    """What `orch attach` execs to land in a live tmux session of the target.

    `term` is the TERM of the terminal at hand; where the target does not know it, it is
    xterm-256color. `=` makes tmux take the session's name exactly, never as a prefix.
    """
    tmux = (*tmux_words(target.tmux_socket), "attach-session", "-t", f"={session}")
    there = wrap(target, with_term(("env", "-u", "TMUX", *tmux), term), on_terminal=True)
    if target.host.transport == "local":
        return tuple(_text(word) for word in as_argv(there))
    host = target.host
    words = ("ssh", "-t", *IMPATIENT, *ssh_words(host))
    return (*words, "--", ssh_destination(host), _text(shell_line(there)))


def with_term(argv: tuple[str | bytes, ...], term: str) -> Command:
    """A command with the TERM of the terminal at hand, or xterm-256color if unknown there.

    A runtime starts it in a clean environment, which has none.
    """
    return Command(argv=("/bin/sh", "-c", _TERMINAL, "sh", *argv), env={"TERM": term})


def _text(word: str | bytes) -> str:
    return word if isinstance(word, str) else word.decode("utf-8", "surrogateescape")
