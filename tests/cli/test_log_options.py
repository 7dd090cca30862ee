"""What `logs` refuses, and how a time is read."""

import re
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from orchestrator.cli.options import moment
from tests.cli.canned import CannedBackend
from tests.cli.conftest import Ran

Orch = Callable[..., Ran]


@pytest.mark.parametrize(
    "words",
    [
        ("--since", "noon"),
        ("--since", "10m", "-n", "3"),
        ("--raw", "--rank", "1"),
        ("--raw", "--grep", "x"),
        ("--grep", "("),
        ("--grep", "x(?=y)"),
    ],
)
def test_options_that_make_no_sense(words: tuple[str, ...], project: Path, orch: Orch) -> None:
    """They are refused with 2 before any daemon is asked."""
    ran = orch("logs", "@1", *words)
    assert (ran.code, ran.out) == (2, "")


def test_since_reaches_the_daemon_and_rank_is_read_here(canned: CannedBackend, orch: Orch) -> None:
    """The daemon is asked for lines from that time on; of them those of the rank are shown."""
    ran = orch("logs", "@1", "--since", "1700000000.5", "--rank", "3")
    assert (ran.code, ran.out) == (0, "")
    assert canned.asked[-1][2]["offset"] != "0"
    first = next(asked for what, _, asked in canned.asked if what == "log")
    assert first["since"] == "1700000000.5"


def test_times_as_people_write_them() -> None:
    """A length of time ago, a clock time that has been, a date, unix seconds."""
    now = time.time()
    assert moment("10m") == pytest.approx(now - 600, abs=5)
    assert moment("1h30m ago") == pytest.approx(now - 5400, abs=5)
    assert moment("1700000000") == 1_700_000_000
    assert moment("2026-01-31T14:30") == datetime(2026, 1, 31, 14, 30).astimezone().timestamp()
    assert moment("2026-01-31T14:30+00:00") == 1_769_869_800
    ahead = datetime.now().astimezone() + timedelta(minutes=2)
    assert moment(f"{ahead:%H:%M:%S}") == pytest.approx(now - 86_400 + 120, abs=3700)


def test_each_example_of_the_help_is_a_time(orch: Orch) -> None:
    """What `logs --help` shows as a time is taken as it stands there."""
    shown = " ".join(orch("logs", "--help").out.split())
    found = re.search(r"--since T (\S.*?) or unix seconds", shown)
    assert found is not None
    for example in found[1].split(", "):
        moment(example)


def test_jsonl_without_following_names_the_option_that_lacks(orch: Orch, project: Path) -> None:
    """The remedy is the command to type."""
    ran = orch("logs", "@1", "--jsonl")
    assert (ran.code, ran.out) == (2, "")
    assert "orch logs -f --jsonl RUN" in ran.err
