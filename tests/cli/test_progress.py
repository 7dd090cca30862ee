"""What a long send shows while it is under way."""

import pytest

from orchestrator.cli.ship import progress_text


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
