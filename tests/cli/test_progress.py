"""What a deploy shows: its plan, a long send while it is under way, and how setup failed."""

from typing import Any

import pytest

from orchestrator.cli.ship import DeployNews, plan_lines, progress_line, progress_text
from orchestrator.core.errors import ApiError


@pytest.mark.parametrize(
    ("stage", "rate", "shown"),
    [
        ("send", 2 * 1024**2, "ct200: 20.0 MiB of 200.0 MiB, 10 %, 2.0 MiB/s, 1m 30s left"),
        ("send", 0, "ct200: 20.0 MiB of 200.0 MiB, send"),
        ("verify", 2 * 1024**2, "ct200: 20.0 MiB of 200.0 MiB, verify"),
    ],
)
def test_progress_shows_rate_and_time_left(stage: str, rate: int, shown: str) -> None:
    """Rate and time left once anything arrived; the stage where it is no sending."""
    message = {
        "target": "ct200",
        "stage": stage,
        "sent_bytes": 20 * 1024**2,
        "total_bytes": 200 * 1024**2,
        "bytes_per_s": rate,
    }
    assert progress_text(message) == shown


def sending(target: str, sent_mib: int) -> dict[str, Any]:
    """News of 200 MiB on their way."""
    return {
        "target": target,
        "stage": "send",
        "sent_bytes": sent_mib * 1024**2,
        "total_bytes": 200 * 1024**2,
        "bytes_per_s": 2 * 1024**2,
    }


def test_all_targets_are_side_by_side_in_one_line_of_any_terminal() -> None:
    """In full where there is room, by their part where not, and never into a second line."""
    under_way = [sending(f"ct20{number}", 20 * number) for number in range(4)]
    wide, usual, narrow, least = (
        progress_line(under_way, columns) for columns in (400, 160, 60, 20)
    )
    assert wide.count("of 200.0 MiB") == wide.count("left") == 4
    assert usual.endswith("; ct203 30 % 2.0 MiB/s 1m 10s left")
    assert usual.count("left") == 4
    assert narrow == "  ct200 0 %; ct201 10 %; ct202 20 %; ct203 30 %"
    assert len(least) == 20


@pytest.mark.parametrize(
    ("now", "exists", "setup", "said"),
    [
        (None, False, False, "t -> ct200: release b"),
        ("a", False, False, "t -> ct200: release a -> b"),
        ("a", True, False, "t -> ct200: release a -> b, which is there already; only the switch"),
        ("a", True, True, "t -> ct200: release a -> b, which is there already"),
        ("b", True, False, "t -> ct200: release b is what is deployed"),
        ("b", True, True, "t -> ct200: release b is what is deployed"),
    ],
)
def test_a_plan_says_release_now_and_then_and_whether_setup_runs(
    now: str | None, exists: bool, setup: bool, said: str
) -> None:
    """Setup is told whatever else there is to do: an environment may have been removed."""
    plan: dict[str, Any] = {"target": "ct200", "release": "b", "current": now, "exists": exists}
    plan |= {"setup": setup, "files": 1, "files_to_send": 1, "files_unchanged": 0}
    lines = plan_lines("t", {**plan, "bytes_to_send": 1, "paths": ["a"]})
    assert lines[0].startswith(said)
    assert ("  its environment is made first" in lines) is setup


def test_a_name_with_a_line_in_it_is_one_line_of_the_plan() -> None:
    """Nor does a byte that is no UTF-8 become a question mark."""
    plan: dict[str, Any] = {"target": "ct200", "release": "b", "current": None, "exists": False}
    plan |= {"setup": False, "files": 2, "files_to_send": 2, "files_unchanged": 0}
    lines = plan_lines("t", {**plan, "bytes_to_send": 1, "paths": ["a\nb", "\udcff c"]})
    assert lines[2:] == ["    a\\nb", "    \\xff c"]


@pytest.mark.parametrize("quiet", [False, True])
def test_what_setup_printed_is_not_said_twice(quiet: bool) -> None:
    """An error that quotes it says it only where nobody has seen it yet."""
    news = DeployNews(quiet=quiet)
    news.show({"kind": "setup", "line": "no such package"})
    with pytest.raises(ApiError) as failed, news.told_once():
        raise ApiError("ct200: setup failed.\nno such package", remedy="Read the log.", exit_code=1)
    quoted = "\nno such package" if quiet else ""
    assert failed.value.message == f"ct200: setup failed.{quoted}"
    assert failed.value.remedy == "Read the log."
