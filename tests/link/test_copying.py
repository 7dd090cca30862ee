"""Copies whose source changes under them, between two folders of this machine."""

import asyncio
import hashlib
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.errors import OrchError, UsageError
from orchestrator.link.copying import copy
from orchestrator.link.ends import Copied, Here
from orchestrator.link.one_file import PIECE_BYTES
from orchestrator.probe import copying
from orchestrator.probe.frames import MAX_FRAME_BYTES, encode


class Disturbed(Here):
    """An end at which something happens before its Nth read."""

    def __init__(self, at: int, what: Any) -> None:
        self._left, self._what = at, what

    async def call(
        self, op: str, *, timeout_s: float, raw: bytes | None = None, **args: Any
    ) -> Any:
        """Do the op, and what is to happen before it."""
        if op == "copy_read":
            self._left -= 1
            if self._left == 0:
                self._what()
        return await super().call(op, timeout_s=timeout_s, raw=raw, **args)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A file of a few pieces and a bit."""
    path = tmp_path / "source"
    path.write_bytes(os.urandom(6 * PIECE_BYTES + 17))
    return path


async def test_a_log_that_grows_is_copied_as_far_as_it_was(source: Path, tmp_path: Path) -> None:
    """A run that writes on does not keep its log from being copied."""
    was = source.read_bytes()

    def grow() -> None:
        with source.open("ab") as file:
            file.write(b"one line more\n")

    await copy(Disturbed(3, grow), str(source), Here(), str(tmp_path / "to"), Copied())
    assert (tmp_path / "to").read_bytes() == was


async def test_a_file_that_is_changed_is_refused_and_not_mixed(
    source: Path, tmp_path: Path
) -> None:
    """What was read already is something else now: nothing gets the file's name."""

    def change() -> None:
        with source.open("r+b") as file:
            file.write(b"other")

    with pytest.raises(OrchError, match="changed while it was copied"):
        await copy(Disturbed(5, change), str(source), Here(), str(tmp_path / "to"), Copied())
    assert not (tmp_path / "to").exists()


class Garbling(Here):
    """An end that writes something else than what comes."""

    def __init__(self, garbled: Callable[[bytes], bytes]) -> None:
        self._garbled = garbled

    async def call(
        self, op: str, *, timeout_s: float, raw: bytes | None = None, **args: Any
    ) -> Any:
        """Do the op, with other bytes."""
        return await super().call(
            op, timeout_s=timeout_s, raw=self._garbled(raw) if raw else raw, **args
        )


@pytest.mark.parametrize(
    "garbled",
    [lambda raw: bytes([raw[0] ^ 1]) + raw[1:], lambda raw: raw + b"x", lambda raw: raw[:-1]],
    ids=["another byte", "a byte more", "a byte less"],
)
async def test_a_file_that_came_as_another_gets_no_name(
    source: Path, tmp_path: Path, garbled: Callable[[bytes], bytes]
) -> None:
    """A file is hashed where it came to lie; one that differs is removed, and not gone on with."""
    to = tmp_path / "there" / "to"
    to.parent.mkdir()
    with pytest.raises(OrchError, match="what came is not what was sent, and was removed"):
        await copy(Here(), str(source), Garbling(garbled), str(to), Copied())
    assert not [*to.parent.iterdir()]


async def test_a_file_that_shrinks_is_refused(source: Path, tmp_path: Path) -> None:
    """What is missing is said, and the part is gone on with by the next copy."""
    shrink = Disturbed(5, lambda: os.truncate(source, PIECE_BYTES))
    with pytest.raises(OrchError, match="became shorter"):
        await copy(shrink, str(source), Here(), str(tmp_path / "to"), Copied())
    assert not (tmp_path / "to").exists()


@pytest.mark.parametrize(
    ("wrong", "kept"), [(0, 0), (PIECE_BYTES - 1, 0), (3 * PIECE_BYTES, PIECE_BYTES)]
)
async def test_a_part_is_gone_on_with_only_where_it_is_right(
    source: Path, tmp_path: Path, wrong: int, kept: int
) -> None:
    """A wrong byte among its last pieces costs those, one before them all; never a wrong file."""
    content = bytearray(source.read_bytes()[: 5 * PIECE_BYTES])
    content[wrong] ^= 1
    (tmp_path / ".to.orch-part").write_bytes(content)
    copied = Copied()
    await copy(Here(), str(source), Here(), str(tmp_path / "to"), copied)
    assert (tmp_path / "to").read_bytes() == source.read_bytes()
    assert copied.sent_bytes == source.stat().st_size - kept


async def test_what_the_system_refuses_is_a_sentence(source: Path, tmp_path: Path) -> None:
    """It names the path, and has no number of an error in it."""
    with pytest.raises(OrchError, match=r"source/below: Not a directory\.$"):
        await copy(Here(), str(source), Here(), str(source / "below"), Copied())


@pytest.mark.lab
@pytest.mark.xdist_group("lab-link")
async def test_a_disk_that_fills_is_said_and_the_copy_goes_on_later(
    source: Path, tmp_path: Path
) -> None:
    """The sentence has the remedy; with room again only the rest is sent."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", "size=4m", "orch-test", str(disk)]
    made = subprocess.run(mounting, check=False, capture_output=True, text=True)
    if made.returncode != 0:
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI must be able to mount a tmpfs: {made.stderr}")
        pytest.skip(f"no tmpfs can be mounted here: {made.stderr}")
    try:
        with pytest.raises(OrchError, match=r"No space left on device\. Free some space"):
            await copy(Here(), str(source), Here(), str(disk / "to"), Copied())
        subprocess.run(["mount", "-o", "remount,size=32m", str(disk)], check=True)
        copied = Copied()
        await copy(Here(), str(source), Here(), str(disk / "to"), copied)
        assert (disk / "to").read_bytes() == source.read_bytes()
        assert copied.sent_bytes < source.stat().st_size
    finally:
        subprocess.run(["umount", str(disk)], check=True)


async def test_a_right_part_saves_its_bytes(source: Path, tmp_path: Path) -> None:
    """Only what is not there yet is sent, and the digest is that of the whole."""
    (tmp_path / ".to.orch-part").write_bytes(source.read_bytes()[: 5 * PIECE_BYTES])
    copied = Copied()
    await copy(Here(), str(source), Here(), str(tmp_path / "to"), copied)
    assert copied.sent_bytes == PIECE_BYTES + 17
    digests = {hashlib.sha256(path.read_bytes()).hexdigest() for path in (source, tmp_path / "to")}
    assert len(digests) == 1


async def test_a_folder_whose_copy_was_cut_is_gone_on_with_by_the_same_words(
    source: Path, tmp_path: Path
) -> None:
    """It has its name once it is whole; until then the same destination means the same place."""
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(3):
        (folder / f"{number}").write_bytes(source.read_bytes())

    def cut() -> None:
        raise OrchError("the link was cut.")

    cut_copy = copy(Disturbed(20, cut), str(folder), Here(), str(tmp_path / "to"), Copied())
    with pytest.raises(OrchError, match="was cut"):
        # In a loop of its own: that one waits for the threads which still write.
        await asyncio.to_thread(asyncio.run, cut_copy)
    assert not (tmp_path / "to").exists()
    copied = Copied()
    await copy(Here(), str(folder), Here(), str(tmp_path / "to"), copied)
    assert sorted(path.name for path in (tmp_path / "to").iterdir()) == ["0", "1", "2"]
    assert copied.sent_bytes < 3 * source.stat().st_size
    assert not (tmp_path / ".to.orch-part").exists()


async def cut_copy_of(folder: Path, to: Path) -> None:
    """A copy of a folder that is cut once what it made so far lies in its part."""

    def cut() -> None:
        raise OrchError("the link was cut.")

    with pytest.raises(OrchError, match="was cut"):
        await asyncio.to_thread(
            asyncio.run, copy(Disturbed(2, cut), str(folder), Here(), str(to), Copied())
        )


def tree(top: Path, **files: str) -> Path:
    """A folder with these files."""
    for name, content in files.items():
        path = top / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return top


def names(top: Path) -> list[str]:
    """All that is in a folder."""
    return sorted(str(path.relative_to(top)) for path in top.rglob("*"))


async def test_a_part_of_another_folder_does_not_get_into_a_new_one(tmp_path: Path) -> None:
    """Two of one name, the first one's copy cut: the new folder has only what the second has."""
    one = tree(tmp_path / "a" / "runs", only_a="a", d__of_a="a", e__of_a="a", z="z")
    (one / "link").symlink_to("z")
    other = tree(tmp_path / "b" / "runs", only_b="b", d__of_b="b", e="now a file")
    to = tmp_path / "to"
    to.mkdir()
    await cut_copy_of(one, to)
    tree(to / ".runs.orch-part", e__of_a="a", whole="a")
    (to / ".runs.orch-part" / "link").symlink_to("z")
    await copy(Here(), str(other), Here(), str(to), Copied())
    assert names(to) == ["runs", "runs/d", "runs/d/of_b", "runs/e", "runs/only_b"]
    assert (to / "runs" / "e").read_text() == "now a file"


async def test_what_is_gone_at_the_source_since_the_cut_does_not_come_back(
    tmp_path: Path,
) -> None:
    """Neither whole nor as a part of its own, while parts of what is still there go on."""
    source = tree(tmp_path / "source", gone="g", kept="k" * 100)
    await cut_copy_of(source, tmp_path / "to")
    part = tree(tmp_path / ".to.orch-part", **{".gone.orch-part": "g", ".kept.orch-part": "k" * 60})
    (source / "gone").unlink()
    (part / "kept").unlink(missing_ok=True)
    copied = Copied()
    await copy(Here(), str(source), Here(), str(tmp_path / "to"), copied)
    assert names(tmp_path / "to") == ["kept"]
    assert copied.sent_bytes == 40


async def test_a_part_of_the_other_kind_is_in_nobodys_way(tmp_path: Path) -> None:
    """A folder's part and a file's have one name: a file comes after the one, a folder after."""
    folder, file = tree(tmp_path / "folder", x="x"), tmp_path / "file"
    file.write_text("content")
    await cut_copy_of(tree(tmp_path / "two", x="x", y="y"), tmp_path / "to")
    assert (tmp_path / ".to.orch-part").is_dir()
    await copy(Here(), str(file), Here(), str(tmp_path / "to"), Copied())
    assert (tmp_path / "to").read_text() == "content"
    (tmp_path / ".next.orch-part").write_text("of a file")
    await copy(Here(), str(folder), Here(), str(tmp_path / "next"), Copied())
    assert names(tmp_path / "next") == ["x"]


async def test_a_link_to_a_folder_is_copied_as_that_folder(tmp_path: Path) -> None:
    """`latest` of a folder of runs gives a folder `latest`, as it does for a file."""
    tree(tmp_path / "run_7", x="x", d__y="y")
    (tmp_path / "latest").symlink_to("run_7")
    to = tmp_path / "to"
    to.mkdir()
    await copy(Here(), str(tmp_path / "latest"), Here(), str(to), Copied())
    assert names(to) == ["latest", "latest/d", "latest/d/y", "latest/x"]
    assert not (to / "latest").is_symlink()


async def test_a_folder_over_a_dangling_link_is_refused_at_the_door(tmp_path: Path) -> None:
    """Nothing is sent first, and no part is left."""
    source = tree(tmp_path / "source", x="x")
    (tmp_path / "to").symlink_to("nowhere")
    copied = Copied()
    with pytest.raises(UsageError, match="to is a link"):
        await copy(Here(), str(source), Here(), str(tmp_path / "to"), copied)
    assert copied.sent_bytes == 0
    assert not (tmp_path / ".to.orch-part").exists()


async def test_a_folder_goes_to_a_target_through_a_link_that_is_there(tmp_path: Path) -> None:
    """A target's links are its own: a folder on another disk is no danger to anybody here."""
    source = tree(tmp_path / "source", x="x")
    (tmp_path / "disk").mkdir()
    (tmp_path / "to").mkdir()
    (tmp_path / "to" / "source").symlink_to(tmp_path / "disk")
    await copy(Here(), str(source), Here(), str(tmp_path / "to"), Copied())
    assert names(tmp_path / "disk") == ["x"]


def test_a_file_that_is_being_written_is_none_that_is_made_up(tmp_path: Path) -> None:
    """It has no blocks yet where the system flushes late, and grows between look and read."""
    path = tmp_path / "growing.log"
    path.write_bytes(b"")
    before = path.stat()
    path.write_bytes(b"a line\n")
    assert not copying.is_made_up(str(path), before)
    proc = "/proc/self/status"
    assert copying.is_made_up(proc, os.stat(proc))


class Shifting(Here):
    """An end whose folder changes between two pages, before those that were told."""

    def __init__(self, change: Callable[[], object]) -> None:
        self._change = change
        self.read: list[str] = []

    async def call(
        self, op: str, *, timeout_s: float, raw: bytes | None = None, **args: Any
    ) -> Any:
        """Do the op; of a folder only two entries at a time are told."""
        if op == "copy_read":
            self.read.append(args["path"])
        found = await super().call(op, timeout_s=timeout_s, raw=raw, **args)
        if op != "copy_tree" or len(found["entries"]) <= 2:
            return found
        self._change()
        return {"entries": found["entries"][:2], "more": True}


async def test_a_folder_that_changes_while_it_is_listed_names_each_file_once(
    tmp_path: Path,
) -> None:
    """One that comes shifts those behind it: the same file twice was copied side by side."""
    top = tree(tmp_path / "top", a="1", b="2", c="3", d="4")
    source = Shifting((top / "0").touch)
    await copy(source, str(top), Here(), str(tmp_path / "to"), Copied())
    assert sorted(source.read) == [str(top / name) for name in "abcd"]


async def test_what_goes_while_a_folder_is_listed_takes_no_other_along(tmp_path: Path) -> None:
    """A pipe that goes shifts those behind it: a file was passed over, and nobody told."""
    top = tree(tmp_path / "top", b="2", c="3", d__x="4", d__y="5", e="6")
    os.mkfifo(top / "a")
    source = Shifting(lambda: (top / "a").unlink(missing_ok=True))
    await copy(source, str(top), Here(), str(tmp_path / "to"), Copied())
    assert names(tmp_path / "to") == ["b", "c", "d", "d/x", "d/y", "e"]


async def test_a_folder_that_goes_while_it_is_listed_is_no_short_copy(tmp_path: Path) -> None:
    """Its first page alone would be a copy that looks whole."""
    top = tree(tmp_path / "top", a="1", b="2", c="3")
    source = Shifting(lambda: top.rename(tmp_path / "moved"))
    with pytest.raises(OrchError, match="No such file"):
        await copy(source, str(top), Here(), str(tmp_path / "to"), Copied())
    assert not (tmp_path / "to").exists()


def test_pages_of_one_name_each_have_the_whole_folder(tmp_path: Path) -> None:
    """Whichever name a page ends with, the next begins behind it, as one long page goes on."""
    top = tree(
        tmp_path / "top", b__x__1="", b__x__2="", b__y="", a__z="", c="", **{"b-__y": "", "-": ""}
    )
    (top / "e").mkdir()
    (top / "b" / "link").symlink_to("x")

    def told(after: str) -> list[str]:
        args = {"path": str(top), "after": after}
        return [one["name"] for one in copying.copy_tree(args, lambda _: None)["entries"]]

    whole = told("")
    assert sorted(whole) == sorted([".", *names(top)])
    for number, name in enumerate(whole):
        assert told(name) == whole[number + 1 :]


def test_a_page_of_long_names_is_shorter(tmp_path: Path) -> None:
    """Five thousand names of a kilobyte fit into no frame; the pages together have them all."""
    folder = tmp_path / "top"
    for _ in range(6):
        folder /= "d" * 250
    folder.mkdir(parents=True)
    for number in range(800):
        (folder / f"{number:0240}").touch()
    args = {"path": str(tmp_path / "top")}
    first = copying.copy_tree(args, lambda _: None)
    assert first["more"]
    assert len(first["entries"]) < 700
    last = first["entries"][-1]["name"]
    rest = copying.copy_tree({**args, "after": last}, lambda _: None)
    assert not rest["more"]
    assert len(first["entries"]) + len(rest["entries"]) == 807


def test_a_page_of_names_that_json_makes_long_fits_into_a_frame(tmp_path: Path) -> None:
    """Letters beyond the first plane are twelve bytes each in JSON."""
    folder = tmp_path / "top"
    for _ in range(12):
        folder /= "\U0001f600" * 62
    folder.mkdir(parents=True)
    for number in range(1200):
        (folder / f"{number}").touch()
    page = copying.copy_tree({"path": str(tmp_path / "top")}, lambda _: None)
    frame = {"kind": "result", "id": 1, "value": page}
    assert len(encode(frame)) < MAX_FRAME_BYTES


async def test_two_copies_to_one_place_take_turns(tmp_path: Path) -> None:
    """Of two folders to one new name the second finds the first whole; they were mixed."""
    one, two = tree(tmp_path / "one", a="1", b="1", c="1"), tree(tmp_path / "two", a="22", d="22")
    to = tmp_path / "to"
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        for top in (one, two):
            group.create_task(copy(Here(), str(top), Here(), str(to), Copied()))
    both = {path.name: path.read_text() for path in to.iterdir()}
    assert both.keys() == {"a", "b", "c", "d"}
    assert both["a"] in {"1", "22"}
    assert not list(tmp_path.glob(".*orch-part"))


async def test_a_turn_that_does_not_come_is_said(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By another name of the same place too; afterwards the place is free and nothing is left."""
    monkeypatch.setattr("orchestrator.link.copying._TURN_WITHIN_S", 0.5)
    (tmp_path / "here").symlink_to(tmp_path)
    other, to = tmp_path / "here" / "to", tmp_path / "to"
    assert (await Here().call("copy_hold", timeout_s=5, path=str(other)))["held"]
    with pytest.raises(OrchError, match="another copy to it is at work"):
        await copy(Here(), str(source), Here(), str(to), Copied())
    assert not to.exists()
    await Here().call("copy_let_go", timeout_s=5, path=str(other))
    await copy(Here(), str(source), Here(), str(to), Copied())
    assert to.read_bytes() == source.read_bytes()


class Late(Here):
    """An end that has given the turn and answers only a moment later."""

    def __init__(self) -> None:
        self.given = asyncio.Event()

    async def call(
        self, op: str, *, timeout_s: float, raw: bytes | None = None, **args: Any
    ) -> Any:
        """Do the op."""
        found = await super().call(op, timeout_s=timeout_s, raw=raw, **args)
        if op == "copy_hold":
            self.given.set()
            await asyncio.sleep(0.1)
        return found


async def test_a_copy_that_is_cancelled_while_it_asks_gives_its_turn_back(
    source: Path, tmp_path: Path
) -> None:
    """The turn was kept as long as that probe lived, and each later copy waited and failed."""
    end, to = Late(), str(tmp_path / "to")
    copying_on = asyncio.create_task(copy(Here(), str(source), end, to, Copied()))
    async with asyncio.timeout(30):
        await end.given.wait()
        copying_on.cancel()
        with pytest.raises(asyncio.CancelledError):
            await copying_on
    assert (await end.call("copy_hold", timeout_s=5, path=to))["held"]
    await end.call("copy_let_go", timeout_s=5, path=to)


class Deaf(Here):
    """An end that hears no word of giving a turn back."""

    async def call(
        self, op: str, *, timeout_s: float, raw: bytes | None = None, **args: Any
    ) -> Any:
        """Do the op, or wait as a link does."""
        found = await super().call(op, timeout_s=timeout_s, raw=raw, **args)
        if op == "copy_let_go":
            await asyncio.sleep(timeout_s)
            raise OrchError("no answer.")
        return found


async def test_a_copy_does_not_wait_long_for_an_end_that_is_gone(
    source: Path, tmp_path: Path
) -> None:
    """Giving the turn back is a courtesy: whoever stopped a copy waited two minutes for it."""
    async with asyncio.timeout(30):
        await copy(Here(), str(source), Deaf(), str(tmp_path / "to"), Copied())
    assert (tmp_path / "to").exists()
