"""What a person reads of prune, ack and daemon status, word by word."""

from collections.abc import Callable
from typing import Any

import pytest

from orchestrator.cli.daemon import lines_of
from orchestrator.cli.prune import lines_of as prune_lines
from tests.cli.canned import CannedBackend, incident_view
from tests.cli.conftest import Ran

Orch = Callable[..., Ran]


@pytest.mark.parametrize(
    ("state", "words", "asks"),
    [
        ("open", "i-7f3k acknowledged: ", True),
        ("acknowledged", "i-7f3k was acknowledged already: ", False),
        ("resolved", "i-7f3k is resolved, nothing is left to acknowledge: ", False),
    ],
)
def test_ack_says_what_it_did(
    canned: CannedBackend, orch: Orch, state: str, words: str, asks: bool
) -> None:
    """A second acknowledgement, or one of what is over, says so and asks nothing of the daemon."""
    canned.documents["incident"] = incident_view(state=state)
    ran = orch("ack", "i-7")
    assert (ran.code, ran.out.startswith(words)) == (0, True)
    assert ("ack" in [what for what, _, _ in canned.asked]) is asks


def pruned(**changes: Any) -> dict[str, Any]:
    """What one target answered."""
    empty: dict[str, Any] = {"releases": [], "runs": [], "sessions": [], "error": None}
    return {"job": "dflash", "target": "ct200", **empty, **changes}


def test_prune_names_only_what_there_is() -> None:
    """Where nothing is old it says so; no count of zero, no size of nothing."""
    runs = [{"name": "dflash-1.a1", "bytes": 2048}]
    said = {
        "dry_run": True,
        "targets": [
            pruned(),
            pruned(releases=["4be1d0"], runs=runs),
            pruned(sessions=["dflash"]),
        ],
        "logs": [],
        "log_bytes": 0,
    }
    assert list(prune_lines(said)) == [
        "dflash on ct200: nothing would go",
        "dflash on ct200: 1 release and 1 run folder (2.0 KiB) would go",
        "  release 4be1d0",
        "  run dflash-1.a1  2.0 KiB",
        "dflash on ct200: 1 ended tmux session would go",
        "  tmux session dflash, which has ended",
        "here: no log would go",
    ]


def test_daemon_status_says_who_needs_a_value_and_where_it_goes() -> None:
    """Job and sink are named, the file as well as the shell, and where the daemon's log is."""
    view: dict[str, object] = {"running": True, "pid": 1, "socket": "/s", "state_folder": "/state"}
    needed = {"HF_TOKEN": ["job a", "job b"], "ORCH_URL": ["sink ops"]}
    view |= {"needs": list(needed), "needed_by": needed, "env_file": "~/.config/orch/env"}
    assert lines_of(view)[1:] == [
        "  state      /state",
        "  log        /state/daemon.log",
        "  needs      HF_TOKEN (job a, job b)",
        "             ORCH_URL (sink ops)",
        "             export them and run any command again, or put them into "
        "~/.config/orch/env (mode 0600)",
    ]
