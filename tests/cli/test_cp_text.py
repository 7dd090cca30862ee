"""What `orch cp` says at its end."""

import argparse

import pytest

from orchestrator.cli.copying import _say
from orchestrator.link.ends import Copied


@pytest.mark.parametrize(
    ("copied", "said"),
    [
        (Copied(files=1), "1 file, 0 B; 0 B copied in"),
        (Copied(files=1, total_bytes=7, done_bytes=7), "1 file, 7 B; 0 B copied in"),
        (Copied(files=2, unchanged=1), "2 files, 0 B, 1 unchanged; 0 B copied in"),
        (Copied(files=2, unchanged=2, total_bytes=7), "2 unchanged; nothing to copy, each"),
    ],
    ids=["empty", "from its part", "one of two", "all there"],
)
def test_nothing_to_copy_is_said_where_all_was_there(
    capsys: pytest.CaptureFixture[str], copied: Copied, said: str
) -> None:
    """A new empty file, or one whose part was whole, was made: that is not nothing."""
    _say(argparse.Namespace(json=False), copied, 1.0)
    assert said in capsys.readouterr().out
