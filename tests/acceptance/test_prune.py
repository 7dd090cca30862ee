"""`orch prune`: what is old goes, shown first with --dry-run; what is in use stays."""

from collections.abc import Callable
from pathlib import Path

from tests.acceptance.conftest import PLAYED, MakeOrch, Orch, local_job
from tests.conftest import TmuxCall

Story = Callable[..., Orch]


def test_old_releases_and_run_folders_go(
    make_orch: MakeOrch, short_folder: Path, tmux: TmuxCall
) -> None:
    """`keep` releases stay, and the one that a live run works in; its run folder stays too."""
    package = short_folder / "played"
    package.mkdir()
    for file in PLAYED.glob("*.py"):
        (package / file.name).write_text(file.read_text())
    more = "    keep: 1\n"
    inventory = local_job(short_folder, "python3 -m played $PLAY", more)
    orch = make_orch(inventory.replace(str(PLAYED), str(package)))
    releases, runs = short_folder / "w" / "releases", short_folder / "w" / "runs"

    def digests() -> set[str]:
        return {path.name for path in releases.iterdir() if not path.name.startswith(".")}

    orch("run", "--env", "PLAY=steps --count 1")
    (package / "extra.py").write_text("x = 1\n")
    orch("run", "--detach", "--env", "PLAY=steps --count 0")
    orch.until(lambda: orch.json("show", "@1")["state"] == "running")
    (package / "extra.py").write_text("x = 2\n")
    orch("deploy")
    first, second = (orch.json("show", f"dflash-{n}")["release"] for n in (1, 2))
    assert len(digests()) == 3

    planned = orch.json("prune", "--dry-run")["targets"][0]
    assert (planned["releases"], planned["runs"]) == ([first], [])
    planned = orch.json("prune", "--dry-run", "--older-than", "1ms")["targets"][0]
    assert [one["name"].partition(".")[0] for one in planned["runs"]] == ["dflash-1"]
    assert len(digests()) == 3

    shown = orch("prune", "--older-than", "1ms").stdout
    assert "dflash on local: 1 release and 1 run folder" in shown
    assert first not in digests()
    assert second in digests()
    assert [path.name.partition(".")[0] for path in runs.iterdir()] == ["dflash-2"]
    assert orch.json("show", "@1")["state"] == "running"
    assert "step 1 " in orch("logs", "dflash-1").stdout  # the log is kept here
    orch("stop", "@1")
    shown = orch("prune", "--older-than", "1ms").stdout
    assert "tmux session dflash, which has ended" in shown
    assert not tmux("list-sessions", check=False).stdout.strip()


def test_release_and_folder_of_a_run_that_begins_again_stay(
    make_orch: MakeOrch, short_folder: Path
) -> None:
    """In its back-off nothing of it runs, and its next attempt needs both all the same."""
    package = short_folder / "played"
    package.mkdir()
    for file in PLAYED.glob("*.py"):
        (package / file.name).write_text(file.read_text())
    more = "    keep: 1\n    restart: {on: [infra], max_attempts: 3, backoff: 1h}\n"
    inventory = local_job(short_folder, "python3 -m played infra --fail 9", more)
    orch = make_orch(inventory.replace(str(PLAYED), str(package)))
    run = orch.json("run", "--detach")["run"]
    orch.until(lambda: orch.json("show", run)["state"] == "backoff")
    (package / "extra.py").write_text("x = 1\n")
    orch("deploy")
    shown = orch.json("show", run)
    words = ("prune", "--older-than", "1ms")
    planned = orch.json(*words, "--dry-run")["targets"][0]
    assert (planned["releases"], planned["runs"]) == ([], [])
    orch(*words)
    assert (short_folder / "w" / "releases" / shown["release"]).is_dir()
    assert Path(shown["directory"]).is_dir()
    orch("stop", run)
    planned = orch.json(*words, "--dry-run")["targets"][0]
    assert (planned["releases"], len(planned["runs"])) == ([shown["release"]], 1)
