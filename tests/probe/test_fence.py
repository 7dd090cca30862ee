"""The fence: a probe whose daemon lost the host does nothing there, whatever it is asked."""

from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.probe.fence import Fence, Fenced
from orchestrator.probe.frames import TOKEN_SHIFT
from tests.probe.driver import Driver


def fence(folder: Path, token: int, key: str = "fleet.ab12") -> Fence:
    """That of a probe whose daemon came with a token."""
    return Fence(key, (token << TOKEN_SHIFT) + 1_760_000_000_000, str(folder))


def test_a_smaller_token_is_refused_from_then_on(tmp_path: Path) -> None:
    """Its probe that lives does nothing more, and a new one does not begin."""
    old, new = fence(tmp_path, 3), fence(tmp_path, 4, "fleet.host")
    old.raise_bar()
    old.check()
    new.raise_bar()
    new.check()
    with pytest.raises(Fenced, match=r"Another daemon drives this host now \(token 4; .* with 3\)"):
        old.check()
    with pytest.raises(Fenced):
        fence(tmp_path, 3, "fleet.ab12.bulk0").raise_bar()


def test_who_shares_with_nobody_has_no_fence(tmp_path: Path) -> None:
    """A daemon with a database of its own writes no file, and other fleets do not hold it up."""
    fence(tmp_path, 9, "another").raise_bar()
    alone = fence(tmp_path, 0)
    alone.raise_bar()
    alone.check()
    assert [path.name for path in tmp_path.glob("*.fence")] == ["another.fence"]


def test_the_bar_outlives_the_probe(tmp_path: Path) -> None:
    """It lies in a file: after a reboot the smaller token is refused all the same."""
    fence(tmp_path, 7).raise_bar()
    with pytest.raises(Fenced):
        fence(tmp_path, 6).raise_bar()
    fence(tmp_path, 7).raise_bar()


def test_probes_keep_to_the_fence(start: Callable[..., Driver], folder: Path) -> None:
    """A living probe does nothing more once a larger token was there; a late one does not begin."""
    old = start(generation=3 << TOKEN_SHIFT, key=f"{folder.name}.one")
    look = {"workdir": str(folder), "names": []}
    assert old.call("runs_known", **look) == {"runs": []}
    start(generation=4 << TOKEN_SHIFT, key=f"{folder.name}.two").call("runs_known", **look)
    refused = old.result("runs_known", **look)
    assert refused["error"]["type"] == "Fenced", refused
    late = start(generation=3 << TOKEN_SHIFT, key=f"{folder.name}.three")
    assert late.close() == 1
