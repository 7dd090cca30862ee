"""What `orch stop` says became of a run's processes and GPUs, or why that is not known."""

import pytest

from orchestrator.cli import output
from orchestrator.cli.stop import kept_text, stopped_text
from tests.cli.canned import run_view

GIB = 1024**3


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (
            {"ended": [1, 2], "gpus": [0, 1, 2, 5], "gpus_free_after_s": 3.21},
            "run 2 stopped, 2 processes ended; GPUs 0-2,5 free after 3.2 s",
        ),
        (
            {"ended": [1], "gpus": [3], "gpus_free_after_s": 0.0},
            "run 2 stopped, 1 process ended; GPU 3 free after 0.0 s",
        ),
        ({"ended": []}, "run 2 stopped, 0 processes ended"),
        (
            {
                "ended": [1],
                "gpu_holders": [{"gpu": 1, "pid": 77, "container": "201", "command": "python3 x"}],
            },
            "run 2 stopped, 1 process ended;"
            " GPU memory is still held by gpu 1 pid 77 201 python3 x",
        ),
        (
            {
                "ended": [1],
                "gpu_holders": [{"gpu": 0, "pid": None, "memory_bytes": 70 * GIB}],
            },
            "run 2 stopped, 1 process ended; GPU memory is still held by"
            " a process not seen from there (70.0 GiB of GPU 0)",
        ),
    ],
)
def test_it_claims_what_was_looked_at(message: dict[str, object], said: str) -> None:
    """GPUs by number where they were free in time, their holders where they were not."""
    assert stopped_text(message, name="run 2") == said


@pytest.mark.parametrize(
    ("state", "seen", "said"),
    [
        (
            "stopped",
            True,
            "run 2 is stopped; ct200 cannot be reached, last seen 10m ago: "
            "what it may have left there is ended once it is back",
        ),
        (
            "stopping",
            False,
            "run 2 is not stopped yet: ct200 cannot be reached, not seen yet; "
            "the stop is kept, and done once it is back",
        ),
    ],
)
def test_a_stop_of_a_host_that_is_away_says_what_is_done_later(
    state: str, seen: bool, said: str
) -> None:
    """A run that waited in its back-off is stopped already: what it left is what remains."""
    seen_at = output.now() - 630 if seen else None
    assert kept_text({"run": run_view(state=state, seen_at=seen_at)}) == said
