"""`orch bundle`: what leaves the machine is whole, named by its incident, and holds no secret."""

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path

from tests.acceptance.conftest import Orch

Story = Callable[..., Orch]
SECRET = 'hunter2-"quoted"-value'
TOKEN = "hf_" + "aB3dE6gH" * 4


def test_bundle_holds_everything_and_no_secret(story: Story) -> None:
    """Log, findings, incident, environment and the daemon's words; the job's secret is nowhere."""
    orch = story(
        "python3 -m played $PLAY",
        "    secrets: [SAY]\n    env: {PLAY: say_environment}\n",
    )
    orch.env["SAY"] = SECRET
    orch("run", "--", "SAY", check=None)
    orch("run", "--env", f"PLAY=fx_race_crash --lines 20 --stamp {TOKEN}", check=100)
    said = orch.json("bundle", "@1")
    incident = orch.json("show", "@1")["incident"]
    path = Path(orch.folder, said["path"])
    assert path.name == f"orch-{incident}-dflash-2.tar.gz"
    assert path.stat().st_mode & 0o077 == 0
    texts = unpacked(path.read_bytes())
    assert json.loads(texts["run.json"])["id"] == "dflash-2"
    assert json.loads(texts["incidents.json"])[0]["id"] == incident
    assert {one["moment"] for one in json.loads(texts["environment.json"])} == {"launch", "end"}
    assert "### run 2 of dflash" in texts["explain.md"]
    assert "RuntimeError: Detected" in texts["log/attempt-1-tail.txt"]
    assert "RuntimeError: Detected" in texts["log/attempt-1-around-findings.txt"]
    assert TOKEN not in "".join(texts.values())
    assert said["secrets_removed"] > 0

    shown = orch("bundle", "dflash-1", "-o", "mine.tar.gz").stdout
    assert "look through it before you send it on" in shown
    assert "hunter2" not in "".join(unpacked((orch.folder / "mine.tar.gz").read_bytes()).values())
    assert "no such" in orch("bundle", "@1", "-o", "none/x", check=2).stderr.lower()
    orch("bundle", "nope", check=102)


def unpacked(content: bytes) -> dict[str, str]:
    """Name -> text of everything in an archive, which is one folder."""
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        members = [one for one in archive.getmembers() if one.isfile()]
        texts = {one.name: archive.extractfile(one) for one in members}
        return {
            name.partition("/")[2]: file.read().decode() for name, file in texts.items() if file
        }
