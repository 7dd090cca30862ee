"""Hostile output does nothing to a terminal, wherever it is shown."""

import json
from pathlib import Path

import pytest

from orchestrator.cli import output
from tests.acceptance.conftest import MakeOrch, local_job
from tests.acceptance.test_crash_story import firing
from tests.lab.receiver import Receiver

ATTACKS = {
    "title": "\x1b]0;owned\x07",
    "clipboard": "\x1b]52;c;b3duZWQ=\x07",
    "link": "\x1b]8;;http://evil.example\x1b\\click\x1b]8;;\x1b\\",
    "cursor": "\x1b[2J\x1b[1;1H",
    "device": "\x1bP$q\x1b\\\x1b[6n\x1b[c",
    "eight-bit": "\x9b2J\x9d52;c;b3duZWQ=\x9c",
    "override": "\u202etxt.exe\u202c",
}
OBEYED = {"\x1b", "\x07", "\x08", "\x9b", "\x9d", "\x90", "\x9c", "\u202e"}


@pytest.mark.parametrize("words", [("logs", "@1"), ("explain", "@1"), ("incidents",), ("ps", "-a")])
def test_nothing_that_a_terminal_obeys_is_printed(
    make_orch: MakeOrch, short_folder: Path, receiver: Receiver, words: tuple[str, ...]
) -> None:
    """A run that prints and dies of every escape: commands and alerts show none of them."""
    attack = "".join(ATTACKS.values())
    program = short_folder / "hostile.py"
    text = attack.encode("utf-8", "surrogateescape").decode("utf-8")
    program.write_text(f"print({text!r} + ' step', flush=True)\nraise RuntimeError({text!r})\n")
    orch = make_orch(local_job(short_folder, f"python3 {program}"))
    orch("run", check=100)
    shown = orch(*words).stdout
    assert shown.strip()
    assert not OBEYED & set(shown)
    (alert,) = receiver.wait_for(where=firing)
    said = json.dumps(alert.json, ensure_ascii=False)
    assert "RuntimeError" in said
    assert not OBEYED & set("".join(alert.json["alerts"][0]["annotations"].values()))


def test_each_way_of_printing_leaves_nothing_that_a_terminal_obeys(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Lines of a result, cells of a table, and what is said to the person who watches."""
    attack = "".join(ATTACKS.values())
    output.say(f"a {attack} b")
    rows = output.table(("name", "said"), [["x", f"a {attack} b"]])
    assert not OBEYED & set("".join(rows))
    output.say(*rows)
    output.note(f"a {attack} b")
    said = capsys.readouterr()
    assert (said.out.count(" b"), said.err.count(" b")) == (2, 1)
    assert not OBEYED & set(said.out + said.err)
