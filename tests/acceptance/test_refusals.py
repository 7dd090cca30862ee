"""What cannot be done here is refused in words, with a remedy that is right."""

from pathlib import Path

from tests.acceptance.conftest import PLAYED, MakeOrch, local_job


def test_doctor_finds_what_run_would_refuse(make_orch: MakeOrch, short_folder: Path) -> None:
    """A job that wants idle GPUs on a target without any is a finding before it is launched."""
    more = "    preflight: {gpus_idle: true}\n"
    orch = make_orch(local_job(short_folder, "python3 -m played steps --count 1", more))
    checks = {one["name"]: one for one in orch.json("doctor", check=3)["checks"]}
    assert not checks["gpus on local"]["ok"]
    assert "gpus_idle" in checks["gpus on local"]["remedy"]
    orch("run", check=1)


def test_requirements_that_are_not_there(make_orch: MakeOrch, short_folder: Path) -> None:
    """Doctor finds them, and deploy gives 2, as for all configuration; a near name is said."""
    package = short_folder / "proj"
    package.mkdir()
    (package / "requirements.txt").touch()
    inventory = local_job(short_folder, "sleep 1", "    setup: {requirements: requirement.txt}\n")
    orch = make_orch(inventory.replace(str(PLAYED), str(package)))
    why = "jobs.dflash.setup.requirements names requirement.txt, which is not in the package;"
    why += " did you mean requirements.txt?"
    checks = {one["name"]: one for one in orch.json("doctor", check=3)["checks"]}
    assert (checks["package of dflash"]["ok"], checks["package of dflash"]["text"]) == (False, why)
    assert why in orch("deploy", "--dry-run", check=2).stderr
    (package / "requirements.txt").rename(package / "requirement.txt")
    checks = {one["name"]: one for one in orch.json("doctor", check=None)["checks"]}
    assert checks["package of dflash"]["text"].startswith(f"{package} can be shipped: 1 file,")


def test_session_of_another_project_is_named(make_orch: MakeOrch, short_folder: Path) -> None:
    """Its run's folder is told, and not that `orch stop` here would end it."""
    first = make_orch(local_job(short_folder / "a", "python3 -m played steps --count 0"))
    first("run", "--detach")
    second = make_orch(local_job(short_folder / "b", "python3 -m played steps --count 1"))
    refused = second("run", check=1).stderr
    assert (
        f"of another job or project, whose folder is {short_folder}/a/w/runs/dflash-1." in refused
    )
    assert "Give this job another `session`" in refused
    first("stop", "@1")


def test_copy_into_a_folder_that_is_not_there(make_orch: MakeOrch, short_folder: Path) -> None:
    """The folder that lacks is named, on either side, and how to make it."""
    orch = make_orch(local_job(short_folder, "sleep 1"))
    (short_folder / "a").write_text("a")
    for words in (
        (f"{short_folder}/a", "local:/gone/deep/b"),
        (f"local:{short_folder}/a", "/gone/deep/b"),
    ):
        refused = orch("cp", *words, check=1).stderr
        assert "its folder /gone/deep is not there. Make it first (mkdir -p /gone/deep)" in refused
