"""A stored log is searched over its segments, the compressed and the open one alike."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.errors import UsageError
from orchestrator.daemon.searching import MOST_MATCHES, in_log
from orchestrator.store.logs import Logs

LINE = "step {:06d} loss 2.5\n"


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[Logs]:
    """20 000 steps in segments of 64 KiB, all but the last of them closed."""
    opened = Logs(tmp_path / "logs", segment_bytes=64 * 1024)
    for first in range(0, 20_000, 1000):
        chunk = "".join(LINE.format(step) for step in range(first, first + 1000)).encode()
        opened.append("j-1", 1, first * len(LINE.format(0)), chunk, 1.0)
    yield opened
    opened.close_all()


async def said(logs: Logs, **query: str) -> list[dict[str, Any]]:
    """What a search says."""
    return [message async for message in in_log(logs, "j-1", 1, query)]


def at(step: int) -> int:
    """Where the line of a step begins."""
    return step * len(LINE.format(0))


async def test_the_nearest_match_is_found_both_ways(logs: Logs) -> None:
    """Down from an offset, up from another, and neither where there is none."""
    down = await said(logs, words="step 01[0-9]*7 ", offset=str(at(10_001)))
    assert down[-1] == {"kind": "found", "attempt": 1, "offset": at(10_007)}
    up = await said(logs, words="STEP 000003", way="up")
    assert up[-1]["kind"] == "none"  # large letters match only large ones
    up = await said(logs, words="step 000003", way="up", offset=str(at(9000)))
    assert up[-1] == {"kind": "found", "attempt": 1, "offset": at(3)}


async def test_all_matches_come_up_to_a_number(logs: Logs) -> None:
    """Every tenth line in order; where every line matches, it ends early and says so."""
    few = await said(logs, words="0 loss", way="all")
    assert [one for part in few[:-1] for one in part["offsets"]] == [
        at(step) for step in range(0, 20_000, 10)
    ]
    assert few[-1] == {"kind": "end", "attempt": 1, "more": False}
    many = await said(logs, words="loss", way="all")
    assert sum(len(part["offsets"]) for part in many[:-1]) == MOST_MATCHES
    assert many[-1]["more"]


@pytest.mark.parametrize("query", [{}, {"words": "x", "way": "sideways"}])
async def test_what_is_no_search_is_refused(logs: Logs, query: dict[str, str]) -> None:
    """Without words, or in a direction that is none, it says what a search needs."""
    with pytest.raises(UsageError, match="needs words"):
        await said(logs, **query)
