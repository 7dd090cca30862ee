"""Names that a hostile target tells lead nowhere outside the folder that was asked for."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.errors import OrchError, UsageError
from orchestrator.link.arriving import name_of, require_inside
from orchestrator.link.copying import copy
from orchestrator.link.ends import Copied, Here
from orchestrator.probe import copying
from orchestrator.probe.ops import Op

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


@pytest.mark.parametrize("kinds", [("folder", "link"), ("link", "folder")])
def test_what_is_told_as_a_link_too_is_no_folder(kinds: tuple[str, str]) -> None:
    """A name that comes twice leads nowhere by being a folder once."""
    twice = [{"name": "d", "kind": kind, "to": "/root/.ssh"} for kind in kinds]
    with pytest.raises(OrchError, match="leads out of that folder"):
        require_inside("/srv/run", [*twice, KEYS])


def test_no_place_has_a_second_name() -> None:
    """Beside a folder no other spelling of it passes: what is written to it is told once."""
    with pytest.raises(OrchError, match="leads out of that folder"):
        require_inside(
            "/srv/run", [{"name": "d", "kind": "folder"}, {"name": "d/", "kind": "file"}]
        )


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


@pytest.mark.parametrize("op", [copying.copy_write, copying.copy_commit])
def test_a_link_that_takes_a_parts_place_meanwhile_is_not_written_through(
    tmp_path: Path, op: Op
) -> None:
    """Between the look and the write anybody who may write there can put one."""
    (tmp_path / "kept").write_text("as it was")
    (tmp_path / ".file.orch-part").symlink_to(tmp_path / "kept")
    nothing = {"size": 0, "sha256": hashlib.sha256().hexdigest(), "mode": 0o600}
    with pytest.raises(OSError, match="symbolic link"):
        op({"path": str(tmp_path / "file"), "offset": 0, "data": b"x", **nothing}, lambda _: None)
    assert (tmp_path / "kept").read_text() == "as it was"


class FromTarget:
    """A way to an end that is not this machine itself."""

    def __init__(self, end: Here) -> None:
        self.call = end.call


@pytest.mark.parametrize("planted", [".source.orch-part", "source"])
async def test_a_link_in_the_place_of_the_folder_itself_leads_nowhere(
    tmp_path: Path, planted: str
) -> None:
    """The first copy brings a link of its part's name, or of its own; the second goes not there."""
    outside, first, source = (tmp_path / name for name in ("outside", "first", "source"))
    for folder in (outside, first, source):
        folder.mkdir()
    (first / planted).symlink_to(outside)
    (source / "authorized_keys").write_text("not mine")
    to, target = tmp_path / "to", FromTarget(Here())
    await copy(target, str(first), Here(), str(to), Copied())
    assert (to / planted).is_symlink()
    if planted == "source":
        with pytest.raises(UsageError, match="is a link"):
            await copy(target, str(source), Here(), str(to), Copied())
    else:
        await copy(target, str(source), Here(), str(to), Copied())
        assert (to / "source" / "authorized_keys").read_text() == "not mine"
    assert not [*outside.iterdir()]


class Renaming(Here):
    """A target that says of each path that it is another one."""

    def __init__(self, path: Path | str) -> None:
        self._path = str(path)

    async def call(
        self, op: str, *, timeout_s: float, raw: bytes | None = None, **args: Any
    ) -> Any:
        """Do the op, and say so."""
        answer = await super().call(op, timeout_s=timeout_s, raw=raw, **args)
        return {**answer, "path": self._path} if op == "copy_look" else answer


@pytest.mark.parametrize("lie", [".ssh", ".bashrc"])
async def test_a_target_does_not_choose_the_name_here(tmp_path: Path, lie: str) -> None:
    """What was asked for keeps that name, whatever the target says that it is."""
    home, there = tmp_path / "home", tmp_path / "srv"
    for place, content in ((home, "mine"), (there, "not mine")):
        (place / ".ssh").mkdir(parents=True)
        (place / ".ssh" / "authorized_keys").write_text(content)
        (place / ".bashrc").write_text(content)
    if lie == ".ssh":
        (there / "results").mkdir()
    else:
        (there / "results").write_text("not mine")
    target = FromTarget(Renaming(there / lie))
    await copy(target, f"{there}/./results", Here(), str(home), Copied())
    assert (home / ".ssh" / "authorized_keys").read_text() == "mine"
    assert (home / ".bashrc").read_text() == "mine"
    assert (home / "results").exists()


@pytest.mark.parametrize("asked", ["~", ".", "..", ""])
@pytest.mark.parametrize("told", ["/srv/.ssh", "/", "/srv/..", "/srv/.", "/srv/\ud800"])
async def test_a_name_that_only_the_target_tells_is_none_of_a_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: str, told: str
) -> None:
    """A home folder has no name in what was asked for: then nothing hidden comes, and no climb."""
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "authorized_keys").write_text("not mine")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "home")
    (tmp_path / "to").mkdir()
    with pytest.raises(OrchError, match="nothing was copied"):
        await copy(FromTarget(Renaming(told)), asked, Here(), str(tmp_path / "to"), Copied())
    assert not [*(tmp_path / "to").iterdir()]


@pytest.mark.parametrize("found", ["/", "/srv/..", "/srv/."])
def test_no_name_climbs_whoever_tells_it(found: str) -> None:
    """This machine may call a folder `.ssh`, but nothing is called `..` or by no name at all."""
    assert name_of("~", "/root/.ssh", trusted=True) == ".ssh"
    with pytest.raises(OrchError, match="nothing was copied"):
        name_of("~", found, trusted=True)


def test_the_folder_itself_is_a_folder() -> None:
    """As a link it would get the asked name, and the next copy would be written through it."""
    with pytest.raises(OrchError, match="leads out of that folder"):
        require_inside("/srv/run", [{"name": ".", "kind": "link", "to": "/root/.ssh"}])


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


@pytest.mark.parametrize("path", ["source", "source/file"])
async def test_nothing_comes_set_uid(tmp_path: Path, path: str) -> None:
    """It would run as whoever copied it."""
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "file").write_text("#!/bin/sh")
    await copy(FromTarget(Set()), str(tmp_path / path), Here(), str(tmp_path / "to"), Copied())
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


class Adding(Here):
    """A target whose list of a folder has one entry more."""

    def __init__(self, entry: Mapping[str, Any]) -> None:
        self._entry = entry

    async def call(
        self, op: str, *, timeout_s: float, raw: bytes | None = None, **args: Any
    ) -> Any:
        """Do the op, and add the entry; what it names can be read."""
        if op == "copy_read":
            return {"data": b""}
        if op == "copy_digest":
            return {"sha256": "", "missing": 0}
        if (
            op == "copy_look"
            and not Path(args["path"].encode("utf-8", "replace").decode()).is_dir()
        ):
            return dict(self._entry)
        answer = await super().call(op, timeout_s=timeout_s, raw=raw, **args)
        if op == "copy_tree":
            answer["entries"].append(self._entry)
        return answer


@pytest.mark.parametrize(
    "odd",
    [
        {"kind": "link"},
        {"kind": "link", "to": None},
        {"kind": "link", "to": "a\0b"},
        {"kind": "link", "to": "half a letter \ud800"},
        {"kind": "file", "name": "half a letter \ud800"},
        {"kind": "folder", "name": "half a letter \ud800"},
        {"kind": "folder", "name": "x" * 300},
    ],
    ids=repr,
)
async def test_what_no_system_can_name_fails_the_copy_in_words(
    tmp_path: Path, odd: Mapping[str, Any]
) -> None:
    """A link to nothing, a NUL, a letter that is none: an error as of any other copy."""
    (tmp_path / "source").mkdir()
    target = Adding({"name": "odd", "mode": 0o600, "size": 0, "stamp": [], **odd})
    with pytest.raises(OrchError):
        await copy(target, str(tmp_path / "source"), Here(), str(tmp_path / "to"), Copied())
    assert not (tmp_path / "to").exists()
