"""Where the probe is put on a target, by the first thing that runs there: real Python, no link."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.probe import receive

PROBE = b"print('it runs')\n"
DIGEST = hashlib.sha256(PROBE).hexdigest()


def received(home: str, shared: Path) -> str:
    """What is printed where /var/tmp is `shared`: as it is pushed, its text runs by itself."""
    text = Path(receive.__file__).read_text(encoding="utf-8").replace("/var/tmp", str(shared))
    done = subprocess.run(
        [sys.executable, "-c", text, DIGEST, str(len(PROBE)), "1", "key"],
        input=PROBE,
        env={"HOME": home},
        capture_output=True,
        check=False,
        timeout=60,
    )
    return done.stdout.decode()


def test_a_home_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    """The probe is in a folder of this user's alone."""
    assert "it runs" in received("/proc/none", tmp_path)
    (folder,) = tmp_path.iterdir()
    assert folder.name == f"orch-{os.getuid()}"
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("planted", ["open to others", "a link", "of a group"])
def test_what_somebody_put_in_its_folders_place_gets_no_probe(tmp_path: Path, planted: str) -> None:
    """Whoever could write there would have the probe do what they like."""
    folder, elsewhere = tmp_path / f"orch-{os.getuid()}", tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    if planted == "a link":
        folder.symlink_to(elsewhere)
    else:
        folder.mkdir()
        folder.chmod(0o777 if planted == "open to others" else 0o720)
    said = received("/proc/none", tmp_path)
    assert f"orch failed {folder} is not this user's own folder" in said
    assert [*folder.iterdir(), *elsewhere.iterdir()] == []


def test_a_torn_probe_is_replaced_in_one_step(tmp_path: Path) -> None:
    """Whoever reads the old file goes on reading it: the new one is another, whole at once."""
    place = tmp_path / ".local/share/orch/probe" / f"{DIGEST}.pyz"
    place.parent.mkdir(parents=True)
    place.write_bytes(b"torn")
    with place.open("rb") as old:
        assert "it runs" in received(str(tmp_path), tmp_path / "unused")
        assert old.read() == b"torn"
    assert [one.read_bytes() for one in place.parent.iterdir()] == [PROBE]
