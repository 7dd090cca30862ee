"""`orch diagnose` reads any log with no daemon, with an inventory or none; 3 is for a crash."""

import bz2
import gzip
import json
import lzma
import random
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from tests.cli.conftest import Ran

Orch = Callable[..., Ran]

CRASH = """\
step 1 loss 9.1
Traceback (most recent call last):
  File "/app/train.py", line 7, in <module>
    main()
  File "/app/train.py", line 4, in main
    raise ValueError("no such layer: \\x1b[31mq9\\x1b[0m")
ValueError: no such layer: q9
"""
PROMISED = (
    "schema file verdict crash signature title severity transient family fingerprint exception"
    " root_exception frame in_app_frame rank thread line truncated cause next_steps references"
    " findings"
)


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder without an inventory, with a log that crashed and one that did not."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "crash.log").write_text(CRASH)
    (tmp_path / "fine.log").write_text("step 1\nstep 2\ndone\n")
    return tmp_path


def test_crash_is_3_and_told(logs: Path, orch: Orch) -> None:
    """The exception, its place and its line, and no daemon started for it."""
    ran = orch("diagnose", "crash.log")
    assert ran.code == 3
    assert "[python_error]" in ran.out
    assert "  raised  ValueError: no such layer: q9\n" in ran.out
    assert "  at      /app/train.py:4 in main\n" in ran.out
    assert not (logs / "state").exists()


def test_no_crash_is_0(logs: Path, orch: Orch) -> None:
    """A log that ends well says so."""
    ran = orch("diagnose", "fine.log")
    assert (ran.code, ran.out) == (0, "ok: no crash found\n")


def test_document_has_the_promised_keys(logs: Path, orch: Orch) -> None:
    """--json is the contract's document, its keys in order."""
    ran = orch("diagnose", "crash.log", "--json")
    said = json.loads(ran.out)
    assert list(said)[: len(PROMISED.split())] == PROMISED.split()
    assert (said["file"], said["crash"], said["signature"]) == ("crash.log", True, "python_error")


def test_several_files_are_lines(logs: Path, orch: Orch) -> None:
    """--jsonl gives one object a file, in their order; 3 where any crashed; --json takes one."""
    ran = orch("diagnose", "--jsonl", "fine.log", "crash.log")
    assert ran.code == 3
    assert [json.loads(line)["crash"] for line in ran.out.splitlines()] == [False, True]
    assert orch("diagnose", "--json", "fine.log", "crash.log").code == 2


def test_standard_input_is_a_log_too(logs: Path) -> None:
    """`-` reads stdin, and the document says so."""
    done = subprocess.run(
        [sys.executable, "-m", "orchestrator", "diagnose", "-", "--json"],
        input=CRASH.encode(),
        capture_output=True,
        check=False,
        timeout=50,
    )
    assert (done.returncode, json.loads(done.stdout)["file"]) == (3, "-")


def test_file_that_is_not_there_is_2(logs: Path, orch: Orch) -> None:
    """A wrong name is usage, not a crash."""
    ran = orch("diagnose", "nope.log")
    assert (ran.code, ran.err) == (
        2,
        "orch: nope.log: No such file or directory. Give a log, or - for stdin;"
        " of a run `orch explain RUN` tells.\n",
    )


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "tcsh"])
def test_completion_knows_the_commands(shell: str, orch: Orch) -> None:
    """The script is made from the parser, so it has every command."""
    ran = orch("completion", shell)
    assert ran.code == 0
    assert "diagnose" in ran.out
    assert "no-deploy" in ran.out


RULES = """\
version: 1
rules:
  - name: reactor_scram
    pattern: 'reactor \\d+ scrammed'
    role: root
"""


def test_rules_of_the_inventory_count(logs: Path, orch: Orch) -> None:
    """A rule of the folder's inventory, or of the one that --config names, finds its line."""
    (logs / "own.log").write_text("step 1\nreactor 3 scrammed\n")
    assert orch("diagnose", "own.log").code == 0
    (logs / "other.yaml").write_text(RULES)
    named = orch("diagnose", "own.log", "--config", "other.yaml")
    assert (named.code, "[reactor_scram]" in named.out) == (3, True)
    (logs / "other.yaml").rename(logs / "inventory.yaml")
    assert orch("diagnose", "own.log").code == 3


def test_broken_inventory_is_a_warning(logs: Path, orch: Orch) -> None:
    """The log is read all the same; the faults are told on stderr."""
    (logs / "inventory.yaml").write_text("version: 1\nhots: {}\n")
    ran = orch("diagnose", "fine.log")
    assert (ran.code, ran.out) == (0, "ok: no crash found\n")
    assert "inventory.yaml:2: hots" in ran.err


@pytest.mark.parametrize(
    ("content", "remark"),
    [
        (b"", "the file is empty"),
        (zlib.compress(bytes(random.Random(1).randbytes(9000))), "this is no text log"),
        ("step 1 loss 2.0\n".encode("utf-16"), "this is no text log"),
    ],
)
def test_what_is_no_log_is_said(logs: Path, orch: Orch, content: bytes, remark: str) -> None:
    """Nothing was found since there is nothing to read; the document stays what it is."""
    (logs / "odd").write_bytes(content)
    ran = orch("diagnose", "odd")
    assert (ran.code, ran.out) == (0, f"ok: no crash found; {remark}\n")
    ran = orch("diagnose", "odd", "--json")
    assert json.loads(ran.out)["verdict"] == "ok"
    assert remark in ran.err


@pytest.mark.parametrize(
    "content",
    [
        "\x1b[32mstep 1\x1b[0m\r 10%|\u2588\u2588  |\r\n".encode(),
        b"step 1\n\xff\xfe broken bytes in it\n",
    ],
)
def test_colours_bars_and_torn_letters_are_text(logs: Path, orch: Orch, content: bytes) -> None:
    """A terminal's log is a log."""
    (logs / "odd").write_bytes(content)
    assert orch("diagnose", "odd").out == "ok: no crash found\n"


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": lambda text: zstandard.compress(text[:40]) + zstandard.compress(text[40:]),
}


@pytest.mark.parametrize("kind", PACKED)
def test_a_packed_log_is_read_as_the_text_that_it_holds(logs: Path, orch: Orch, kind: str) -> None:
    """Told by how the file begins, whatever it is called; also where it has several parts."""
    text = (logs / "crash.log").read_bytes()
    (logs / "old").write_bytes(PACKED[kind](text))
    plain, packed = orch("diagnose", "crash.log"), orch("diagnose", "old")
    assert (packed.code, packed.err) == (3, "")
    assert packed.out == plain.out


def test_a_packed_log_that_is_cut_is_refused(logs: Path, orch: Orch) -> None:
    """What is missing may be what went wrong, so that no verdict is given."""
    text = random.Random(1).randbytes(4000)
    (logs / "cut.gz").write_bytes(gzip.compress(text)[:-100])
    ran = orch("diagnose", "cut.gz")
    assert ran.code == 2
    assert "cut.gz: the gzip file cannot be unpacked to its end" in ran.err
    assert "zcat" in ran.err
