"""The inventory of a living daemon: an edit is read beside the loop, a bad one is told."""

import asyncio
from pathlib import Path

import pytest

from orchestrator.core.errors import InventoryError, UsageError
from orchestrator.daemon.inventory_file import InventoryFile

GOOD = "version: 1\nhosts: {here: {transport: local}}\ntargets: {one: {host: here}}\n"
JOB = "jobs:\n  train: {target: one, workdir: /srv/w, command: 'true', package: package}\n"


def opened(folder: Path, text: str = GOOD) -> InventoryFile:
    """A daemon's file, as it was when it began."""
    path = folder / "inventory.yaml"
    path.write_text(text)
    return InventoryFile(path, folder / "kept.yaml")


async def test_an_edit_is_read_and_nobody_waits_for_it(tmp_path: Path) -> None:
    """While hundreds of targets are read anew, the loop goes on with everything else."""
    file = opened(tmp_path)
    more = "".join(f"  t{number}: {{host: here}}\n" for number in range(300))
    (tmp_path / "inventory.yaml").write_text(
        GOOD.replace("{one: {host: here}}", "\n  one: {host: here}") + more
    )
    reading, turns = asyncio.ensure_future(file.refresh()), 0
    while not reading.done():
        await asyncio.sleep(0.001)
        turns += 1
        assert len(file.current().targets) in (1, 301)
    await reading
    assert len(file.current().targets) == 301
    assert turns > 2  # a few even where another test has loaded the reader into this process


async def test_those_who_ask_at_once_wait_for_one_reading(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Twenty requests behind one edit all get it, and it is read once."""
    file = opened(tmp_path)
    (tmp_path / "inventory.yaml").write_text(GOOD.replace("one", "two"))
    with caplog.at_level("INFO"):
        await asyncio.gather(*(file.refresh() for _ in range(20)))
    assert list(file.current().targets) == ["two"]
    assert [record.msg for record in caplog.records] == ["inventory.read"]


async def test_a_bad_edit_keeps_the_last_good_one_and_is_told(tmp_path: Path) -> None:
    """What was read last stays; whoever wants to act is told what is wrong."""
    file = opened(tmp_path)
    (tmp_path / "inventory.yaml").write_text("nonsense: [")
    await file.refresh()
    assert list(file.current().targets) == ["one"]
    assert file.error is not None
    with pytest.raises(UsageError):
        file.checked()
    (tmp_path / "inventory.yaml").write_text(GOOD)
    await file.refresh()
    assert list(file.checked().targets) == ["one"]


async def test_an_inventory_that_went_away_is_told_as_that(tmp_path: Path) -> None:
    """Its path and the system's word for it; what was read last stays."""
    file = opened(tmp_path)
    (tmp_path / "inventory.yaml").unlink()
    await file.refresh()
    assert "inventory.yaml could not be read: No such file" in str(file.error)
    assert list(file.current().targets) == ["one"]


async def test_a_refused_one_is_read_again_for_whoever_acts(tmp_path: Path) -> None:
    """The folder that it names is there by now, and the file is as it was."""
    file = opened(tmp_path)
    (tmp_path / "inventory.yaml").write_text(GOOD + JOB)
    await file.refresh()
    assert "package" in str(file.error)
    (tmp_path / "package").mkdir()
    await file.refresh()
    assert file.error is not None
    await file.refresh(again=True)
    assert list(file.checked().jobs) == ["train"]


async def test_what_is_kept_is_what_was_read(tmp_path: Path) -> None:
    """A bad edit between the reading and the keeping is not kept in its place."""
    file = opened(tmp_path)
    (tmp_path / "inventory.yaml").write_text("nonsense: [")
    file.keep()
    again = InventoryFile(tmp_path / "inventory.yaml", tmp_path / "kept.yaml")
    assert again.error is not None
    assert list(again.current().targets) == ["one"]


async def test_what_is_kept_is_replaced_in_one_step(tmp_path: Path) -> None:
    """A power cut in the middle leaves the one before whole."""
    file = opened(tmp_path)
    file.keep()
    before = (tmp_path / "kept.yaml").open("rb")
    (tmp_path / "inventory.yaml").write_text(GOOD.replace("one", "another"))
    await file.refresh()
    with before:
        assert before.read() == GOOD.encode()
    assert b"another" in (tmp_path / "kept.yaml").read_bytes()


async def test_a_damaged_copy_hides_no_problem_of_the_file(tmp_path: Path) -> None:
    """What a power cut left of the last good one is passed over; the file's own line is named."""
    (tmp_path / "kept.yaml").write_text("hosts: {")
    with pytest.raises(InventoryError, match=r"inventory\.yaml:1: version"):
        opened(tmp_path, GOOD.replace("version: 1\n", ""))


def test_an_older_orch_took_it_by_fewer_rules_and_the_daemon_starts(tmp_path: Path) -> None:
    """After an upgrade what runs is watched and can be stopped; who acts is told line and key."""
    (tmp_path / "package").mkdir()
    old = GOOD + JOB + JOB.splitlines()[1].replace("train", "other") + "\n"
    old += "  apart: {target: one, workdir: /srv/v, command: x, shared: [c, c/d, ../e, .venv/x]}\n"
    (tmp_path / "kept.yaml").write_text(old)
    file = opened(tmp_path, old)
    assert list(file.current().jobs) == ["train", "other", "apart"]
    with pytest.raises(UsageError, match=r"inventory\.yaml:6: jobs\.other\.workdir: /srv/w is"):
        file.checked()
    assert r"inventory.yaml:7: jobs.apart.shared" in str(file.error)


def test_a_kept_one_whose_target_is_not_there_is_of_no_use(tmp_path: Path) -> None:
    """However old: a job needs a place."""
    (tmp_path / "kept.yaml").write_text(GOOD + JOB.replace("target: one", "target: gone"))
    with pytest.raises(InventoryError, match=r"inventory\.yaml:1: version"):
        opened(tmp_path, GOOD.replace("version: 1\n", ""))
