"""Where the values of secrets and addresses come from."""

import asyncio
import logging
import time
from pathlib import Path

import pytest

from orchestrator.core.inventory.build import parse_inventory
from orchestrator.daemon.environment import Environment, wanted_by


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """`$XDG_CONFIG_HOME/orch/env`, which only the user can read."""
    path = tmp_path / "env"
    path.touch(mode=0o600)
    return path


async def test_a_value_of_its_own_comes_before_a_file_and_a_command(
    file: Path, tmp_path: Path
) -> None:
    """What a client sent, what the file says, then NAME_FILE, then NAME_COMMAND."""
    held = tmp_path / "held"
    held.write_text("from-a-file\n")
    own = {"T_COMMAND": "echo from-a-command; echo more"}
    environment = Environment(own, file, time.monotonic)
    await environment.learn(["T"])
    assert environment.lookup("T") == "from-a-command"
    file.write_text(f"T_FILE={held}\n")
    assert environment.lookup("T") == "from-a-file"
    file.write_text(f"T_FILE={held}\nT='plain value'\n")
    assert environment.lookup("T") == "plain value"
    assert environment.accept({"T": "sent", "OTHER": "x"}, ["T"]) == (["T"], ["T"])
    assert environment.lookup("T") == "sent"
    assert environment.missing(["T", "OTHER"]) == ["OTHER"]


async def test_a_file_or_command_that_gives_nothing_is_a_missing_value(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is noted without what the command printed; an empty output is none."""
    own = {
        "A_FILE": "/no/such/file",
        "B_COMMAND": "printf %s%s half -of; exit 3",
        "C_COMMAND": "true",
    }
    environment = Environment(own, file, time.monotonic)
    with caplog.at_level(logging.WARNING):
        await environment.learn(["A", "B", "C"])
        assert environment.missing(["A", "B", "C"]) == ["A", "B", "C"]
    assert [record.message for record in caplog.records] == [
        "environment.command_failed",
        "environment.value_file_unread",
    ]
    assert not any("half-of" in str(vars(record)) for record in caplog.records)


@pytest.mark.parametrize(
    "own", [{"T_FILE": "~no-such-user/x"}, {"T_FILE": "a\0b"}, {"T_COMMAND": r"printf 'a\0b'"}]
)
async def test_a_value_that_cannot_be_had_is_a_missing_value(
    file: Path, own: dict[str, str]
) -> None:
    """Nobody's home, no name of a file, and what no program's environment can hold."""
    environment = Environment(own, file, time.monotonic)
    await environment.learn(["T"])
    assert environment.lookup("T") is None


def test_the_file_is_named_as_a_person_writes_it(tmp_path: Path) -> None:
    """Below the home with a tilde, and whole where XDG_CONFIG_HOME leads elsewhere."""
    own, elsewhere = {"HOME": "/home/me"}, tmp_path / "orch" / "env"
    usual = Environment(own, Path("/home/me/.config/orch/env"), time.monotonic)
    assert usual.file == "~/.config/orch/env"
    assert Environment(own, elsewhere, time.monotonic).file == str(elsewhere)


def test_a_folder_in_the_files_place_leaves_the_own_values(file: Path) -> None:
    """Every look-up failed, and with it whatever needed one."""
    file.unlink()
    file.mkdir(mode=0o700)
    assert Environment({"T": "own"}, file, time.monotonic).lookup("T") == "own"


async def test_a_command_is_not_asked_each_time(file: Path, tmp_path: Path) -> None:
    """What it printed counts for ten minutes, that it failed for half a minute."""
    now = [1000.0]
    asked = tmp_path / "asked"
    own = {"T_COMMAND": f"echo x >> {asked}; test -e {asked}.ok && echo value"}
    environment = Environment(own, file, lambda: now[0])

    async def learned() -> str | None:
        await asyncio.gather(environment.learn(["T"]), environment.learn(["T"]))
        return environment.lookup("T")

    assert await learned() is None
    (tmp_path / "asked.ok").touch()
    assert await learned() is None
    now[0] += 31
    assert await learned() == "value"
    now[0] += 500
    assert await learned() == "value"
    assert asked.read_text() == "x\nx\n"
    now[0] += 101
    (tmp_path / "asked.ok").unlink()
    assert await learned() == "value", "what was good counts on where the command fails"
    assert asked.read_text() == "x\nx\nx\n"


async def test_a_command_that_takes_long_holds_nothing_up_and_is_ended(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other work goes on meanwhile; after its time the command is ended with all its children."""
    monkeypatch.setattr("orchestrator.daemon.environment.COMMAND_WITHIN_S", 1.0)
    child = tmp_path / "child"
    own = {
        "SLOW_COMMAND": f"sleep 1000 & echo $! > {child}; wait",
        "QUICK_COMMAND": "echo quick",
    }
    environment = Environment(own, file, time.monotonic)
    learning = asyncio.create_task(environment.learn(["SLOW", "QUICK"]))
    turns = 0
    while environment.lookup("QUICK") is None or not child.exists():
        await asyncio.sleep(0.01)
        turns += 1
    assert not learning.done()
    assert turns > 0
    async with asyncio.timeout(30):
        await learning
        while await asyncio.to_thread(lives, int(child.read_text())):
            await asyncio.sleep(0.01)
    assert environment.lookup("SLOW") is None


def lives(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_the_newest_word_of_a_command_or_the_file_counts(file: Path) -> None:
    """A command's value replaces the file's, an edit of the file the command's; earlier ones are
    known on, since what runs with them may print them."""
    file.write_text("T=first\nU=same\n")
    environment = Environment({"V": "own"}, file, time.monotonic)
    assert environment.lookup("T") == "first"
    wanted = ["T", "U", "V"]
    assert environment.accept({"T": "second", "U": "same"}, wanted) == (["T", "U"], ["T"])
    assert environment.accept({"T": "third"}, wanted) == (["T"], ["T"])
    assert environment.accept({"T": "third", "V": "mine"}, wanted) == (["T", "V"], ["V"])
    assert environment.lookup("T") == "third"
    file.write_text("T=first\nU=other than before\n")
    assert (environment.lookup("T"), environment.lookup("U")) == ("third", "other than before")
    file.write_text("T=the fourth\n")
    assert environment.lookup("T") == "the fourth"
    assert environment.every_value("T") == {"first", "second", "third", "the fourth"}
    assert environment.accept({"T": ""}, wanted) == ([], [])


def test_a_file_that_others_may_read_is_said_and_taken_once_it_is_mended(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """`chmod` leaves the file's time as it is; the sentence has the place and the remedy."""
    file.write_text("T=held-by-the-file\n")
    file.chmod(0o644)
    environment = Environment({}, file, time.monotonic)
    with caplog.at_level(logging.WARNING):
        assert environment.lookup("T") is None
    assert environment.file_faults() == (
        f"{file} is there and not read, since others may read it (mode 0644): chmod 600 {file}",
    )
    assert [record.message for record in caplog.records] == ["environment.file_faults"]
    file.chmod(0o600)
    assert environment.lookup("T") == "held-by-the-file"
    assert environment.file_faults() == ()


def test_a_line_without_a_value_is_said_with_its_place_and_without_its_words(file: Path) -> None:
    """A line that is no NAME=value may be a secret by itself; comments and blank lines are none."""
    file.write_text("# of mine\n\nT=x\nhf_pasted_alone\n  \nexport U=y\nX Y=z\n")
    environment = Environment({}, file, time.monotonic)
    assert environment.missing(["T", "U"]) == []
    faults = environment.file_faults()
    assert [fault.partition(" is")[0] for fault in faults] == [f"{file}:4:", f"{file}:7:"]
    assert "pasted" not in str(faults)


def test_each_name_is_told_with_who_wants_it() -> None:
    """Jobs, sinks and the heartbeat, so that a person knows what a missing value costs."""
    inventory = parse_inventory(
        b"version: 1\nhosts: {here: {transport: local}}\ntargets: {t: {host: here}}\n"
        b"jobs: {a: {target: t, workdir: /w, command: x, secrets: [HF_TOKEN]}}\n"
        b"alerts: {heartbeat_url_env: BEAT,"
        b" sinks: {ops: {type: webhook, url_env: URL, secret_env: KEY}}}\n",
        path="/i.yaml",
        folder="/",
        exists=lambda _: True,
        home="/root",
    )
    assert wanted_by(inventory) == {
        "BEAT": ["heartbeat"],
        "HF_TOKEN": ["job a"],
        "KEY": ["sink ops"],
        "URL": ["sink ops"],
    }


class Covering(logging.Handler):
    """Looks a value up for each line, as what covers the log does."""

    def __init__(self, environment: Environment) -> None:
        super().__init__()
        self._environment = environment
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Take a line down."""
        self._environment.lookup("T")
        self.lines.append(record.getMessage())


@pytest.mark.parametrize("content", [None, b"a\0b", b"\xff"], ids=["none", "a NUL", "no text"])
def test_a_value_that_cannot_be_had_is_said_once(
    file: Path, tmp_path: Path, content: bytes | None
) -> None:
    """Each line of the log is covered by the values, that line as well: it would never end."""
    held = tmp_path / "held"
    if content is not None:
        held.write_bytes(content)
    environment = Environment({"T_FILE": str(held)}, file, time.monotonic)
    covering = Covering(environment)
    logger = logging.getLogger("orchestrator.daemon.environment")
    logger.addHandler(covering)
    try:
        assert environment.lookup("T") is None
        assert environment.lookup("T") is None
        assert len(covering.lines) == 1
        held.write_text("value")
        assert environment.lookup("T") == "value"
        held.write_bytes(b"a\0b" if content is None else content)
        assert environment.lookup("T") is None
        assert len(covering.lines) == 2
    finally:
        logger.removeHandler(covering)
