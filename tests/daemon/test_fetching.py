"""What is made of output that was fetched from a target after its run had ended."""

import json

from orchestrator.daemon.fetching import Found

LINES = 20_000
PIECE_BYTES = 64 * 1024


def test_a_log_that_comes_at_once_gives_every_point() -> None:
    """A long run's log, which took hours to print and comes in a second, is no flood."""
    whole = b"".join(b"step=%d loss=%d.5\n" % (one, one) for one in range(1, LINES + 1))
    found = Found({"step": r"step=(?P<value>\d+)", "loss": r"loss=(?P<value>\S+)"})
    told = [
        json.loads(point)
        for begin in range(0, len(whole), PIECE_BYTES)
        for point in found.take(whole[begin : begin + PIECE_BYTES], 1.0)
    ]
    assert [(one["step"], one["loss"]) for one in told] == [
        (one, one + 0.5) for one in range(1, LINES + 1)
    ]
