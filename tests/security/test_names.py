"""Names that a hostile target tells lead nowhere outside the folder that was asked for."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.errors import OrchError
from orchestrator.link.copying import Copied, Here, copy, require_inside

KEYS: Mapping[str, Any] = {"name": "d/authorized_keys", "kind": "file", "mode": 0o600, "size": 1}


@pytest.mark.parametrize(
    "name",
    [
        "./x",
        "a//x",
        "d/./x",
        "unlisted/x",
        "../x",
        "a/../../x",
        "/etc/passwd",
        "..",
        "a/..",
        "a\0b",
        "/",
        "../../.ssh/config",
    ],
)
def test_names_that_climb_are_refused(name: str) -> None:
    """A name with `..`, an absolute one or one with a NUL stops the copy before it begins."""
    with pytest.raises(OrchError, match="leads out of that folder"):
        require_inside("/srv/run", [{**KEYS, "name": name}])


def test_nothing_is_written_through_a_link() -> None:
    """A link and a file below it, in whatever order, are refused: the link may point anywhere."""
    link = {"name": "d", "kind": "link", "mode": 0, "size": 0, "to": "/root/.ssh"}
    for entries in ([link, KEYS], [KEYS, link]):
        with pytest.raises(OrchError, match="leads out of that folder"):
            require_inside("/srv/run", entries)


@pytest.mark.parametrize("planted", ["d", ".file.orch-part"])
async def test_a_link_of_an_earlier_copy_leads_nowhere(tmp_path: Path, planted: str) -> None:
    """First a link comes, and at the second copy what would be written through it."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("as it was")
    source, to = tmp_path / "source", tmp_path / "to"
    (source / "d").mkdir(parents=True)
    (source / "d" / "kept").write_text("changed")
    (source / "file").write_text("changed")
    to.mkdir()
    (to / "source").mkdir()
    (to / "source" / planted).symlink_to(outside if planted == "d" else outside / "kept")
    try:
        await copy(Here(), str(source), Here(), str(to), Copied())
    except OrchError:
        assert planted != "d"
    assert (outside / "kept").read_text() == "as it was"


class Set(Here):
    """A target whose file is set-uid."""

    async def call(
        self, op: str, *, timeout_s: float, raw: bytes | None = None, **args: Any
    ) -> Any:
        """Do the op, and say so."""
        answer = await super().call(op, timeout_s=timeout_s, raw=raw, **args)
        for entry in answer.get("entries", [answer]):
            if "mode" in entry and entry["kind"] == "file":
                entry["mode"] = 0o6755
        return answer


class FromTarget:
    """A way to it that is not this machine itself."""

    def __init__(self) -> None:
        self.call = Set().call


@pytest.mark.parametrize("path", ["source", "source/file"])
async def test_nothing_comes_set_uid(tmp_path: Path, path: str) -> None:
    """It would run as whoever copied it."""
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "file").write_text("#!/bin/sh")
    await copy(FromTarget(), str(tmp_path / path), Here(), str(tmp_path / "to"), Copied())
    (found,) = (one for one in (tmp_path / "to", *(tmp_path / "to").rglob("*")) if one.is_file())
    assert found.stat().st_mode & 0o7777 == 0o755


class Lying(Here):
    """A target that names a file outside of what was asked for."""

    async def call(
        self, op: str, *, timeout_s: float, raw: bytes | None = None, **args: Any
    ) -> Any:
        """Do the op, and add an entry to a list of a folder."""
        answer = await super().call(op, timeout_s=timeout_s, raw=raw, **args)
        if op == "copy_tree":
            (entry,) = (one for one in answer["entries"] if one["kind"] == "file")
            answer["entries"].append({**entry, "name": f"../source/{entry['name']}"})
        return answer


async def test_a_copy_asks_before_it_writes(tmp_path: Path) -> None:
    """One such name in a whole folder, and nothing at all of it is written."""
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "file").write_text("content")
    with pytest.raises(OrchError, match="leads out of that folder"):
        await copy(Lying(), str(tmp_path / "source"), Here(), str(tmp_path / "to"), Copied())
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_ordinary_trees_pass() -> None:
    """Folders, files in them, links beside them, and names with dots are fine."""
    require_inside(
        "/srv/run",
        [
            {"name": ".", "kind": "folder"},
            {"name": "d", "kind": "folder"},
            {"name": "d/..x", "kind": "file"},
            {"name": "d/last", "kind": "link", "to": "step_1"},
            {"name": "d/lastly", "kind": "file"},
        ],
    )
