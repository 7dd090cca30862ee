"""The table of runtimes, pinned word by word; the lab tries pct and lxc for real."""

import pytest

from orchestrator.core.command import Command, entering
from orchestrator.core.model import Host, Target
from orchestrator.core.runtimes import (
    RUNTIMES,
    attach_argv,
    no_way_in,
    ssh_words,
    tmux_words,
    wrap,
)

COMMAND = Command(argv=("nvidia-smi", "-L"), env={"A": "b"}, cwd="/srv")

WAYS_IN = {
    "pct": ("pct", "exec", "200", "--"),
    "lxc": ("lxc-attach", "-n", "200", "--"),
    "incus": ("incus", "exec", "200", "--"),
    "lxd": ("lxc", "exec", "200", "--"),
    "docker": ("docker", "exec", "-i", "-u", "train", "200"),
    "podman": ("podman", "exec", "-i", "-u", "train", "200"),
}


def target(runtime: str, **said: str | None) -> Target:
    """Container 200 on a host that is given these words."""
    return Target(
        name="ct200",
        host=Host(name="pve1", **said),  # type: ignore[arg-type]
        runtime=runtime,
        container="200",
        user="train",
    )


@pytest.mark.parametrize("runtime", WAYS_IN)
def test_way_in(runtime: str) -> None:
    """Each runtime is entered by its own words, and inside all is the same."""
    wrapped = wrap(target(runtime), COMMAND)
    assert wrapped == Command(argv=(*WAYS_IN[runtime], *entering(COMMAND, "train")))


def test_every_runtime_is_tried() -> None:
    """No runtime of the table is missing here."""
    assert set(WAYS_IN) | {"none"} == set(RUNTIMES)


@pytest.mark.parametrize("runtime", WAYS_IN)
def test_sudo_runs_the_runtime_itself(runtime: str) -> None:
    """A sudoers line for the runtime's program alone is enough: no shell and no env before it."""
    wrapped = wrap(target(runtime, become="sudo"), COMMAND)
    assert wrapped.argv[:3] == ("sudo", "-n", "--")
    assert wrapped.argv[3:] == wrap(target(runtime), COMMAND).argv
    assert (wrapped.env, wrapped.cwd) == ({}, None)


def test_runtime_path_is_the_program() -> None:
    """`runtime_path` stands in the place of the runtime's name."""
    wrapped = wrap(target("pct", runtime_path="/usr/sbin/pct"), COMMAND)
    assert wrapped.argv[:2] == ("/usr/sbin/pct", "exec")


def test_host_itself() -> None:
    """Without a runtime a command is left as it is, or given to sudo whole."""
    assert wrap(target("none"), COMMAND) == COMMAND
    argv = wrap(target("none", become="sudo"), Command(argv=("id",), env={"A": "b"})).argv
    assert argv == ("sudo", "-n", "-H", "-u", "train", "--", "env", "A=b", "id")


def test_attach_over_ssh() -> None:
    """`orch attach` execs one ssh with a terminal, and the rest is one quoted line."""
    argv = attach_argv(
        target("pct", hostname="10.1.2.6", port="2222", user="root"), "dflash", term="xterm-kitty"
    )
    assert argv[:2] == ("ssh", "-t")
    assert argv[-7:-1] == ("-p", "2222", "-l", "root", "--", "10.1.2.6")
    assert argv[-1].startswith("exec pct exec 200 -- /bin/sh -c ")
    assert argv[-1].endswith(" sh env -u TMUX tmux -u attach-session -t '=dflash'")
    assert "'TERM=xterm-kitty'" in argv[-1]


def test_attach_gives_a_host_up_that_says_nothing() -> None:
    """ssh by itself waits for ever for a host that accepts and is silent."""
    argv = attach_argv(target("pct", hostname="10.1.2.6"), "dflash")
    assert "ConnectTimeout=20" in argv
    assert "ServerAliveCountMax=4" in argv


@pytest.mark.parametrize(
    ("runtime", "said", "sentence"),
    [
        (
            "pct",
            "Configuration file 'nodes/pve1/lxc/200.conf' does not exist",
            "Container 200 is not on host pve1.",
        ),
        (
            "lxc",
            "lxc-attach: 200: ../src/lxc/attach.c: get_attach_context: 406 Connection refused"
            " - Failed to get init pid",
            "Container 200 does not run on host pve1, or is not there.",
        ),
        (
            "podman",
            'Error: no container with name or ID "200" found: no such container',
            "Container 200 is not on host pve1.",
        ),
        ("docker", "Error: No such container: 200", "Container 200 is not on host pve1."),
        ("incus", "Error: Instance not found", "Container 200 is not on host pve1."),
        ("pct", "ls: cannot access '/x': No such file or directory", None),
        ("none", "Configuration file 'nodes/pve1/lxc/200.conf' does not exist", None),
    ],
)
def test_what_a_runtime_says_of_a_container_it_has_not(
    runtime: str, said: str, sentence: str | None
) -> None:
    """It is put in a sentence, with the command that lists those there are."""
    found = no_way_in(target(runtime), said)
    assert (found and found[0]) == sentence
    assert found is None or found[1].startswith("`orch exec pve1 -- ")


def test_attach_here() -> None:
    """On this machine there is no ssh, and a tmux around does not get in the way."""
    argv = attach_argv(target("none", transport="local"), "dflash")
    assert argv[:3] == ("env", "TERM=xterm-256color", "/bin/sh")
    assert argv[-8:-5] == ("env", "-u", "TMUX")
    assert argv[-5:] == ("tmux", "-u", "attach-session", "-t", "=dflash")


def test_attach_gives_docker_a_terminal() -> None:
    """Runtimes that do not look for a terminal themselves are told of it."""
    assert "docker exec -i -t -u train 200 " in attach_argv(target("docker"), "dflash")[-1]


@pytest.mark.parametrize(
    ("socket", "words"),
    [
        (None, ("tmux", "-u")),
        ("orch", ("tmux", "-u", "-L", "orch")),
        ("/run/tmux/orch", ("tmux", "-u", "-S", "/run/tmux/orch")),
    ],
)
def test_tmux_socket(socket: str | None, words: tuple[str, ...]) -> None:
    """A socket is a path where there is a slash in it, else a name."""
    assert tmux_words(socket) == words


def test_ssh_options_of_a_host() -> None:
    """Each key of a host becomes the option that ssh itself has for it; the rest is left to ssh."""
    host = Host(
        name="pve1",
        port=22,
        user="root",
        identity_file="/k/id",
        known_hosts="/k/known hosts",
        proxy_jump="bastion",
    )
    assert ssh_words(Host(name="gpu3")) == ()
    assert ssh_words(host) == (
        *("-p", "22", "-l", "root", "-i", "/k/id"),
        *("-o", 'UserKnownHostsFile="/k/known hosts"', "-J", "bastion"),
    )
