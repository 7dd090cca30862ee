"""Quoting, tried through real shells down to a program that prints its argv."""

import asyncio
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrator.core.command import (
    MARK,
    STANDARD_PATH,
    Command,
    as_argv,
    entering,
    marked_line,
    quote,
    shell_line,
    shell_script,
)
from orchestrator.core.model import Target
from orchestrator.transport.pool import Pool
from tests.lab.declared import declared
from tests.lab.lab import Lab

SHELLS = [
    shell for shell in ("sh", "bash", "dash", "zsh", "fish", "busybox") if shutil.which(shell)
]

HARD = ["", " ", "'", '"', "\\", "!", "$HOME", "`id`", "*", "~", "-n", "a=b", "\n", "#", "{a,b}"]
WORDS = st.one_of(
    st.sampled_from(HARD),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40),
    st.binary(max_size=40).map(lambda raw: raw.replace(b"\0", b"")),
)
ARGV = st.lists(WORDS, min_size=1, max_size=6)
PRINTER = "/usr/bin/printf"


def printing(words: list[str | bytes], **said: object) -> Command:
    """A command that prints its words, each with a NUL behind it."""
    return Command(argv=(PRINTER, "%s\\0", *words), **said)  # type: ignore[arg-type]


def expected(words: list[str | bytes]) -> bytes:
    """What `printing` prints."""
    raw = [word if isinstance(word, bytes) else word.encode() for word in words]
    return b"".join(word + b"\0" for word in raw)


def through(shell: str, line: bytes) -> subprocess.CompletedProcess[bytes]:
    """A line read by a shell as sshd would have it read."""
    words = ["busybox", "sh"] if shell == "busybox" else [shell]
    return subprocess.run([*words, "-c", line], capture_output=True, check=False, timeout=20)


@pytest.mark.parametrize("shell", SHELLS)
@settings(max_examples=60, deadline=None)
@given(words=ARGV)
def test_every_word_arrives_as_it_was(shell: str, words: list[str | bytes]) -> None:
    """Whatever the words hold, a shell hands exactly these bytes to the program."""
    assert through(shell, shell_line(printing(words))).stdout == expected(words)


@pytest.mark.parametrize("shell", SHELLS)
def test_every_byte_arrives_within_a_word_that_is_plain_else(shell: str) -> None:
    """At its begin, in it and at its end: no byte is left to the shell for the company it keeps."""
    every = [bytes([number]) for number in range(1, 256)]
    words: list[str | bytes] = [
        word for one in every for word in (one + b"ab", b"a" + one + b"b", b"ab" + one)
    ]
    assert through(shell, shell_line(printing(words))).stdout == expected(words)


@pytest.mark.parametrize("byte", [b"\\", b"!"])
def test_what_fish_and_csh_read_within_quotes_is_left_out_of_them(byte: bytes) -> None:
    """Neither shell need be here: a backslash stands before it, and the quotes end before that."""
    assert quote(b"a" + byte + b" b") == b"'a'\\" + byte + b"' b'"


@pytest.mark.parametrize("shell", SHELLS)
@settings(max_examples=30, deadline=None)
@given(text=st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
def test_environment_arrives_as_it_was(shell: str, text: str) -> None:
    """A variable of the command has exactly its text in the program's environment."""
    command = Command(argv=("/bin/sh", "-c", 'printf "%s|" "$ORCH_TRY"'), env={"ORCH_TRY": text})
    assert through(shell, shell_line(command)).stdout == text.encode() + b"|"


@pytest.mark.parametrize("shell", SHELLS)
def test_folder_of_any_name(shell: str, tmp_path: Path) -> None:
    """The command starts in its folder, whatever that is called."""
    folder = tmp_path / "it's a \\ `folder` $HOME\n!"
    folder.mkdir()
    command = Command(argv=("pwd", "-P"), cwd=str(folder))
    assert through(shell, shell_line(command)).stdout == os.fsencode(folder.resolve()) + b"\n"
    assert through(shell, shell_line(Command(argv=("pwd",), cwd="/none"))).returncode != 0


@pytest.mark.parametrize("shell", SHELLS)
def test_a_folder_whose_name_looks_like_an_option_is_a_folder(shell: str, tmp_path: Path) -> None:
    """`-` leads to it, and not back to where the shell was before."""
    for name in ("-", "-P"):
        (tmp_path / name).mkdir()
        line = b"cd / && cd " + quote(str(tmp_path)) + b" && "
        command = Command(argv=("pwd", "-P"), cwd=name)
        done = through(shell, line + shell_line(command))
        assert done.stdout == os.fsencode(tmp_path.resolve() / name) + b"\n"


@pytest.mark.parametrize("shell", SHELLS)
def test_mark_is_printed_and_not_written(shell: str) -> None:
    """The mark stands right before the output, and a shell that echoes its line shows none."""
    line = marked_line(printing(["x"]))
    assert through(shell, line).stdout == MARK + b"x\0"
    assert MARK not in line


def test_as_argv_needs_no_shell_around(tmp_path: Path) -> None:
    """Environment and folder travel inside the argv, for programs that take an argv alone."""
    command = Command(
        argv=("/bin/sh", "-c", 'pwd -P; printf %s "$A"'), env={"A": "b c"}, cwd=str(tmp_path)
    )
    done = subprocess.run(as_argv(command), capture_output=True, check=True, timeout=20)
    assert done.stdout == f"{tmp_path.resolve()}\nb c".encode()


def test_program_with_an_equals_sign(tmp_path: Path) -> None:
    """A program whose name looks like an assignment is still the program."""
    program = tmp_path / "a=b"
    program.write_text("#!/bin/sh\necho $A $1\n")
    program.chmod(0o755)
    command = Command(argv=(str(program), "two"), env={"A": "one"})
    assert through("sh", shell_line(command)).stdout == b"one two\n"


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"argv": ()}, "needs a program"),
        ({"argv": ("",)}, "needs a program"),
        ({"argv": ("a", "b\0c")}, "NUL"),
        ({"argv": ("a",), "cwd": "/\0"}, "NUL"),
        ({"argv": ("a",), "env": {"A": "\0"}}, "NUL"),
        ({"argv": ("a",), "env": {"A B": "c"}}, "'A B'"),
        ({"argv": ("a",), "env": {"A=": "c"}}, "'A='"),
    ],
)
def test_what_cannot_be_passed_is_refused(said: dict[str, object], why: str) -> None:
    """A command that no shell could carry is refused when it is made."""
    with pytest.raises(ValueError, match=why):
        Command(**said)  # type: ignore[arg-type]


def test_plain_words_stay_readable() -> None:
    """A word that needs no quotes gets none, so that `ps` on the host is readable."""
    assert quote("/usr/bin/python3.11") == b"/usr/bin/python3.11"
    assert quote("a b") == b"'a b'"


def entered(command: Command, user: str, **environ: str) -> subprocess.CompletedProcess[bytes]:
    """A command entered as a runtime would, with a host's environment handed in."""
    return subprocess.run(
        entering(command, user), capture_output=True, check=False, timeout=20, env=environ
    )


def environment(output: bytes) -> dict[str, str]:
    """The output of `env -0`."""
    pairs = (item.partition("=") for item in output.decode().split("\0") if item)
    return {name: text for name, _, text in pairs}


def test_entering_leaves_nothing_of_the_host() -> None:
    """Inside, the environment is passwd's and a standard one; what the host handed in is gone."""
    command = Command(argv=("env", "-0"), env={"MINE": "a b"})
    done = entered(command, "root", PATH="/opt/evil", HOME="/home/host", SSH_TTY="x", LANG="C")
    assert environment(done.stdout) == {
        "HOME": "/root",
        "USER": "root",
        "LOGNAME": "root",
        "SHELL": environment(done.stdout)["SHELL"],
        "PATH": STANDARD_PATH,
        "LANG": "C.UTF-8",
        "MINE": "a b",
    }


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
@pytest.mark.parametrize("without_setpriv", [False, True])
def test_entering_as_another_user(without_setpriv: bool, tmp_path: Path) -> None:
    """Another user of the container is become whole: ids, groups, home; by setpriv or by su."""
    shown = Command(argv=("/bin/sh", "-c", 'id -u; id -G; printf "%s|" "$HOME" "$@"', "sh", "-c"))
    argv = [*entering(shown, "nobody")]
    if without_setpriv:
        argv[2] = str(argv[2]).replace("setpriv ", "no-such-setpriv ")
    done = subprocess.run(argv, capture_output=True, check=True, timeout=20, cwd=tmp_path)
    assert done.stdout == b"65534\n65534\n/nonexistent|-c|"


def test_entering_as_nobody_there() -> None:
    """A user that the container has not ends with 126 and a sentence."""
    done = entered(Command(argv=("true",)), "no-such-user")
    assert (done.returncode, done.stdout) == (126, b"")
    assert b"there is no user no-such-user in this container" in done.stderr


def test_entering_a_folder_that_is_not_there() -> None:
    """A folder that is missing inside ends with 126, not with a command run elsewhere."""
    done = entered(Command(argv=("pwd",), cwd="/none"), "root")
    assert (done.returncode, done.stdout) == (126, b"")


@pytest.mark.lab
@pytest.mark.xdist_group("lab-ssh")
@pytest.mark.parametrize("runtime", ["none", "pct", "lxc"])
def test_every_word_arrives_through_ssh(lab: Lab, runtime: str) -> None:
    """Through ssh, the login shell behind it and the runtime, the bytes are still the same."""
    host = declared(lab)
    target = Target(name="ct200", host=host, runtime=runtime, container="200")
    with asyncio.Runner() as runner:

        async def pool_in_loop() -> Pool:
            return Pool()

        pool = runner.run(pool_in_loop())
        transport = pool.transport(target)

        @settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
        @given(words=ARGV, text=st.sampled_from(HARD))
        def arrive(words: list[str | bytes], text: str) -> None:
            command = printing(words, env={"A": text}, cwd="/tmp")
            done = runner.run(transport.run(command))
            assert (done.exit_status, done.stdout) == (0, expected(words))

        try:
            arrive()
        finally:
            runner.run(pool.close())


@pytest.mark.parametrize(
    ("line", "script"),
    [
        ("python3 -m trainer --x 1", "exec python3 -m trainer --x 1"),
        ("python3 -m played $PLAY >out", "exec python3 -m played $PLAY >out"),
        ("echo one && exit 4", "echo one && exit 4"),
        ("prepare; python train.py", "prepare; python train.py"),
        ("FOO=1 python3 a.py", "FOO=1 python3 a.py"),
        ("cd .. \n python3 a.py", "cd .. \n python3 a.py"),
        (". ./env.sh", ". ./env.sh"),
        ("for i in 1 2; do python3 a.py $i; done", "for i in 1 2; do python3 a.py $i; done"),
        ("ls | wc -l", "ls | wc -l"),
    ],
)
def test_the_whole_of_a_command_line_is_run(line: str, script: str) -> None:
    """`exec` stands before one program only; it would cut off what comes after the first."""
    assert shell_script(line) == script
