"""`orch explain` and `orch diff` over a job's real history: what changed, what was tried."""

from collections.abc import Callable
from pathlib import Path

from tests.acceptance.conftest import PLAYED, MakeOrch, Orch, local_job

Story = Callable[..., Orch]


def test_colleague_tells_what_changed_and_what_was_tried(
    make_orch: MakeOrch, short_folder: Path
) -> None:
    """A good run, then a cleared cache, an edit and two crashes: all of it is said unasked."""
    cache, package = short_folder / "cache", short_folder / "played"
    cache.mkdir()
    (cache / "kernel.so").write_bytes(bytes(3_000_000))
    package.mkdir()
    for file in PLAYED.glob("*.py"):
        (package / file.name).write_text(file.read_text())
    more = f"    env: {{TORCHINDUCTOR_CACHE_DIR: {cache}}}\n"
    inventory = local_job(short_folder, "python3 -m played $PLAY", more)
    orch = make_orch(inventory.replace(str(PLAYED), str(package)))

    orch("run", "-m", "baseline", "--env", "PLAY=steps --count 3")
    orch.json("diff", "@1", "@1")  # waits until the look at its end is kept
    (cache / "kernel.so").unlink()
    with (package / "fx_race.py").open("a") as source:
        source.write("# edited\n")
    crash = ("--env", "PLAY=fx_race_crash --lines 20 --after 5")
    orch("run", "-m", "first", *crash, check=100)
    orch("run", "-m", "a lock", *crash, check=100)

    said = orch.json("explain", "@1")
    assert said["signature"] == "fx_trace_race"
    assert said["where"]["source"].startswith("attended = compiled_flex_attention(")
    assert said["last_good"]["number"] == 1
    assert [one["why"] for one in said["tried"]] == ["first"]
    kinds = {one["kind"]: one["text"] for one in said["changes"]}
    assert kinds["cache"] == f"compile cache {cache} 3.0 MB -> 0 B"
    assert kinds["code"] == "played/fx_race.py changed (+1 -0)"
    assert kinds["configuration"].startswith("env.PLAY steps --count 3 -> fx_race_crash")
    assert said["unknown"] == []

    shown = orch("explain", "@1").stdout
    assert "Seen before once, first in run 2:" in shown
    assert 'run 2 "first" died of this' in shown
    assert f"! compile cache {cache} 3.0 MB -> 0 B" in shown
    assert "#### Seen before once" in orch("explain", "@1", "--markdown").stdout

    differing = orch("diff", "@1", "-p").stdout
    assert differing.startswith('dflash-1 (finished, "baseline") -> dflash-3 (failed, "a lock")')
    assert "+# edited" in differing
    same = orch("diff", "@1", "@2").stdout
    assert "  nothing changed\n" in same
    assert same.startswith('dflash-2 (failed, "first") -> dflash-3 (failed, "a lock")')
    assert orch("diff", "@2", "@1").stdout == same  # from the older to the newer, however asked
    assert "from the older to the newer" in orch("diff", "--help").stdout
    assert "No run of dflash before run 1 finished" in orch("diff", "dflash-1", check=2).stderr
    (cache / "kernel.so").write_bytes(bytes(3_000_000))
    orch("run", "-m", "warm again", "--env", "PLAY=steps --count 3")
    assert f"  compile cache {cache} at launch 0 B -> 3.0 MB\n" in orch("diff", "@2", "@1").stdout
