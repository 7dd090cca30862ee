"""What NCCL's RAS service says of ranks that lag, recorded on two GPUs."""

from pathlib import Path

from orchestrator.core.parse.nccl_ras import lags

CAPTURES = Path(__file__).parents[2] / "captures" / "nccl_ras"


def test_the_rank_that_did_not_come_is_named() -> None:
    """It has launched one collective fewer than the rank that waits for it."""
    (lag,) = lags((CAPTURES / "h200x2-one-rank-missing.txt").read_text())
    assert (lag.communicator, lag.operation) == ("0dc8f8caa7ee9a4e", "AllReduce")
    assert (lag.counts, lag.ranks) == ({0: 272, 1: 271}, (1,))


def test_ranks_that_are_alike_do_not_lag() -> None:
    """Nor does anybody where there is no such service, or another text."""
    text = (CAPTURES / "h200x2-one-rank-missing.txt").read_text()
    assert lags(text.replace("operation 271", "operation 272")) == ()
    assert lags("") == lags("NCCL version 2.28.9 compiled with CUDA 13.0\n") == ()
