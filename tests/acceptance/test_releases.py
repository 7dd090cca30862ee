"""`orch releases` and `orch rollback`: what a target has, where it came from, and back to it."""

import shutil
import subprocess
from pathlib import Path

from orchestrator.api.client import Client
from tests.acceptance.conftest import PLAYED, MakeOrch, local_job


def test_a_release_is_listed_with_its_origin_and_gone_back_to(
    make_orch: MakeOrch, short_folder: Path
) -> None:
    """Commit, changes, who and the last run are said; a word that is no job means a release."""
    package = short_folder / "repo" / "played"
    shutil.copytree(PLAYED, package, ignore=shutil.ignore_patterns("__pycache__"))
    git = ["git", "-C", str(package.parent), "-c", "user.email=a@b", "-c", "user.name=a"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], check=True)
    inventory = local_job(short_folder, "python3 -m played steps --count 1")
    orch = make_orch(inventory.replace(str(PLAYED), str(package)))
    orch("run", "-m", "the commit")
    (package / "steps.py").write_text((package / "steps.py").read_text() + "# changed\n")
    said = orch("deploy", "dflash", "dflash").stdout
    plan = said.splitlines()[0]
    assert said.count("dflash -> local") == 1

    (found,) = orch.json("releases")["targets"]
    newest, older = found["releases"]
    assert (found["current"], older["dirty"], newest["dirty"]) == (newest["digest"], False, True)
    assert f"release {older['digest']} -> {newest['digest']}" in plan
    assert older["last_run"] == {"run": "dflash-1", "state": "finished"}
    assert older["diff"] is None
    assert "+# changed" in Path(newest["diff"]).read_text()
    shown = orch("releases", "dflash").stdout
    assert f"{newest['commit'][:10]} of " in shown
    assert "with changes" in shown
    assert f"cat {newest['diff']}" in shown

    client = Client(Path(orch.json("daemon", "status")["socket"]))
    done = client.get("/v1/releases")["releases"][0]["provenance"]
    assert {key: done[key] for key in ("by", "commit", "dirty")} == {
        key: newest[key] for key in ("by", "commit", "dirty")
    }

    back = orch.json("rollback", older["digest"][:6])
    assert (back["before"], back["current"]) == (newest["digest"], older["digest"])
    orch("rollback", "dflash", newest["digest"])
    refused = orch("rollback", "dflash", "zzz", check=2).stderr
    assert "no release" in refused
    assert f"`orch releases` lists them: {newest['digest']}" in refused
    where = f"no release in {short_folder}/w is called nojob."
    assert (
        f"No job is called nojob, and local: {where}" in orch("rollback", "nojob", check=2).stderr
    )
    assert orch("rollback", "dflash").stdout.startswith(f"dflash: release {older['digest']}")
    assert "no release before the current one" in orch("rollback", check=2).stderr
    other = f"jobs:\n  other: {{target: local, workdir: {short_folder}/o, command: sleep 1}}\n"
    file = orch.folder / "inventory.yaml"
    file.write_text(file.read_text().replace("jobs:\n", other))
    refused = orch("rollback", "nojob", check=2).stderr
    assert "There is no job nojob in the inventory; it has: other, dflash." in refused
    assert "`orch rollback JOB nojob`" in refused
