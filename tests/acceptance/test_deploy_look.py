"""What a job finds around it is noted at its deploy as well, and held against its launch."""

from pathlib import Path

from orchestrator.api.client import Client
from tests.acceptance.conftest import MakeOrch, local_job


def test_what_somebody_changed_after_the_deploy_is_told(
    make_orch: MakeOrch, short_folder: Path
) -> None:
    """A cache that is cleared between deploy and launch is named, and the deploy's look is kept."""
    cache = short_folder / "cache"
    cache.mkdir()
    (cache / "kernel.so").write_bytes(bytes(3_000_000))
    more = f"    env: {{TORCHINDUCTOR_CACHE_DIR: {cache}}}\n"
    orch = make_orch(local_job(short_folder, "python3 -m played steps --count 1", more))
    orch("deploy")
    client = Client(Path(orch.json("daemon", "status")["socket"]))
    orch.until(lambda: client.get("/v1/releases")["releases"][0]["looked"])
    (cache / "kernel.so").unlink()
    orch("run")
    told = [one["text"] for one in orch.json("diff", "@1", "@1")["changes"]]
    assert f"compile cache {cache} 3.0 MB -> 0 B, after the deploy" in told
    looks = client.get("/v1/runs/dflash-1/environment")["looks"]
    # Of a run this short the look at its end may be over before the one at its launch.
    assert looks[0]["moment"] == "deploy"
    assert sorted(one["moment"] for one in looks[1:]) == ["end", "launch"]
    assert looks[0]["fingerprint"]["kernel"] == looks[1]["fingerprint"]["kernel"]
    assert looks[0]["fingerprint"]["packages"]


def test_what_drifted_since_the_last_good_run_is_said_before_the_launch(
    make_orch: MakeOrch, short_folder: Path
) -> None:
    """By the look that the deploy took, of packages that no list of the job names."""
    site = short_folder / "site"

    def install(name: str, version: str) -> None:
        marks = site / f"{name}-0.dist-info"
        marks.mkdir(parents=True, exist_ok=True)
        (marks / "METADATA").write_text(f"Name: {name}\nVersion: {version}\n")

    install("oddlib", "3.6")
    more = f"    env: {{PYTHONPATH: {site}}}\n"
    orch = make_orch(local_job(short_folder, "python3 -m played steps --count 1", more))
    assert "since run" not in orch("run").stdout
    client = Client(Path(orch.json("daemon", "status")["socket"]))
    orch.until(
        lambda: (
            "launch"
            in [one["moment"] for one in client.get("/v1/runs/dflash-1/environment")["looks"]]
        )
    )
    install("oddlib", "3.5")
    install("newlib", "0.6")
    orch("deploy")
    shown = orch("run").stdout
    assert "since run 1, the last that finished: newlib 0.6 appeared, oddlib 3.6 -> 3.5" in shown
