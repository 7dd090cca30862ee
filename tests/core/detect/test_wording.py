"""An end without an exception is not told as one, and two different ones are not the same."""

import pytest

from orchestrator.core.detect.engine import Engine
from orchestrator.core.findings import Verdict
from orchestrator.core.model import ExitRecord


def verdict(text: bytes, code: int | None, signal: int | None = None) -> Verdict:
    """The verdict on a log and how its program ended."""
    engine = Engine()
    engine.feed(text)
    record = ExitRecord(code=code, signal=signal, started_at=0.0, ended_at=1.0)
    return engine.close(record)


@pytest.mark.parametrize(
    ("text", "code", "signal", "title"),
    [
        (b"sh: 1: pyhton3: not found\n", 127, None, "A command was not found (exit code 127)"),
        (
            b"train: error: unrecognized arguments: --x\n",
            2,
            None,
            "The program gave up with a message",
        ),
        (b"python3: can't open file 'a.py'\n", 2, None, "The program file was not found"),
        (
            b"/venv/bin/python: can't open file '/srv/a.py': [Errno 2] No such file or directory\n",
            2,
            None,
            "The program file was not found",
        ),
        (
            b"/usr/bin/python3: can't find '__main__' module in '/srv'\n",
            1,
            None,
            "The program has no __main__.py",
        ),
        (b"step 1\n", 7, None, "The program ended with exit code 7 and printed no reason"),
        (b"step 1\n", None, 1, "The program ended by signal 1 and printed no reason"),
    ],
)
def test_what_was_no_exception_is_not_called_one(
    text: bytes, code: int | None, signal: int | None, title: str
) -> None:
    """The title says what is known: a command not found, a message, a code or a signal alone."""
    found = verdict(text, code, signal)
    assert found.title == title
    assert found.crash
    assert "exception" not in found.title


def test_two_commands_that_are_not_found_are_two_failures() -> None:
    """What the shell could not find is part of the fingerprint."""
    one = verdict(b"sh: 1: pyhton3: not found\n", 127)
    other = verdict(b"sh: 1: cd: not found\n", 127)
    assert one.fingerprint != other.fingerprint
