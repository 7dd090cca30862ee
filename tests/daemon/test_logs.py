"""The daemon's own log: JSON lines that rotate, and a form for people that does nothing to them."""

import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.daemon import logs

ATTACK = "x\x1b]52;c;AA==\x07\x9b2J\u202e\nerror   all.well"


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    """The root logger's handlers and level are back behind a test."""
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    yield
    for handler in root.handlers:
        if handler not in before:
            handler.close()
    root.handlers[:] = before
    root.setLevel(level)


def failed() -> logging.LogRecord:
    """An event with a target's words in a fact and in its traceback."""
    error = RuntimeError(ATTACK)
    told = (type(error), error, error.__traceback__)
    record = logging.LogRecord("x", logging.ERROR, "x.py", 1, "supervisor.failed", (), told)
    record.why = ATTACK
    return record


def test_what_a_person_sees_moves_no_cursor() -> None:
    """In `daemon run` on a terminal: facts on one line, no escapes in them nor in tracebacks."""
    shown = logs._Human().format(failed())
    assert shown.startswith("error   supervisor.failed why=x2J error   all.well")
    assert not set("\x1b\x07\x9b\u202e") & set(shown)


def test_a_line_is_json_with_its_event_and_facts() -> None:
    """Whatever is in it stays in its key, and is ASCII."""
    line = logs._JsonLines().format(failed())
    assert line.isascii()
    assert "\n" not in line
    said = json.loads(line)
    assert (said["event"], said["level"], said["why"]) == ("supervisor.failed", "error", ATTACK)
    assert "RuntimeError" in said["traceback"]


def test_no_line_shows_what_is_covered(tmp_path: Path) -> None:
    """Neither in the file nor on a terminal, in facts or in a traceback."""
    logs.set_up(tmp_path / "daemon.log")
    seen = io.StringIO()
    terminal = logging.StreamHandler(seen)
    terminal.setFormatter(logs._Human())
    logging.getLogger().addHandler(terminal)
    logs.cover_with(lambda text: text.replace("s3cret", "****"))
    error = RuntimeError("no login for s3cret")
    logging.getLogger("orchestrator.x").error("x.y", extra={"why": "s3cret"}, exc_info=error)
    for text in ((tmp_path / "daemon.log").read_text(), seen.getvalue()):
        assert "no login for ****" in text
        assert "s3cret" not in text


def test_files_rotate_and_are_kept_by_number(tmp_path: Path) -> None:
    """The log ends at a size: beside the newest three older files stay, whole lines each."""
    logs.set_up(tmp_path / "daemon.log")
    big = "y" * 100_000
    for _ in range(5 * logs.MAX_BYTES // len(big)):
        logging.getLogger("orchestrator.x").info("x.y", extra={"big": big})
    files = sorted(tmp_path.iterdir())
    assert [one.name for one in files] == ["daemon.log", *(f"daemon.log.{n}" for n in (1, 2, 3))]
    for one in files:
        assert one.stat().st_size <= logs.MAX_BYTES
        assert all(json.loads(line)["event"] == "x.y" for line in one.read_text().splitlines())
