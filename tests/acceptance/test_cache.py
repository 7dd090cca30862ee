"""`orch cache` as a person uses it: what is compiled is shown, kept, emptied and brought back."""

import json
from collections.abc import Callable
from pathlib import Path

from tests.acceptance.conftest import Orch

Story = Callable[..., Orch]

COMPILES = (
    "sleep 1.2; mkdir -p $TORCHINDUCTOR_CACHE_DIR && echo kernel > $TORCHINDUCTOR_CACHE_DIR/k.so"
    " && exec python3 -m played steps --count 2"
)
PLACES = {
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "TRITON_CACHE_DIR": "triton",
    "CUDA_CACHE_PATH": "cuda",
    "FLASHINFER_WORKSPACE_BASE": "flashinfer",
}


def compiling(story: Story, folder: Path) -> Orch:
    """A job whose program compiles one kernel into a folder of its own, and then makes steps."""
    env = {name: f"{folder}/compiled/{part}" for name, part in PLACES.items()}
    return story(json.dumps(COMPILES), f"    env: {json.dumps(env)}\n")


def test_a_cache_is_kept_emptied_and_brought_back(story: Story, short_folder: Path) -> None:
    """Clearing says what it costs and keeps a copy; the next launch says that it is cold."""
    orch = compiling(story, short_folder)
    shown = orch("run").stdout
    assert "no compiled kernels in" in shown
    assert "last time" not in shown  # there was none

    (held,) = orch.json("cache", "ls")["targets"]
    assert [(one["kind"], one["bytes"]) for one in held["now"] if one["files"]] == [("inductor", 7)]
    assert 1.0 < held["cold_start_s"] < 60.0
    assert "nothing is kept" in orch("cache", "ls").stdout

    (saved,) = orch.json("cache", "save", "dflash")["targets"]
    assert saved["kept"]["made_with"]["code"] == orch.json("show", "@1")["release"]
    assert "fits" in orch("cache", "ls", "dflash").stdout

    cleared = orch("cache", "clear", "dflash").stdout
    assert "the first steps of the next run compile; last time it took " in cleared
    name = f"{saved['kept']['name']}-cleared"
    assert f"`orch cache restore dflash {name}` brings it back" in cleared
    assert "there are no compiled kernels" in orch("cache", "clear", "dflash", check=1).stderr

    brought = orch("cache", "restore", "dflash").stdout
    assert "7 B in 1 file brought back" in brought
    orch("cache", "clear", "dflash")
    shown = orch("run").stdout
    assert "the first steps compile; last time it took " in shown
    assert "inductor 7 B -> 0 B since dflash-1 ended" in shown
    assert "1 were there" in orch("cache", "restore", "dflash", name).stdout


def test_a_cache_in_use_is_left_alone(story: Story, short_folder: Path) -> None:
    """Neither emptied nor filled under a run that lives, unless told; saving it is harmless."""
    orch = compiling(story, short_folder)
    command = COMPILES.replace("--count 2", "--count 0")
    inventory = orch.folder / "inventory.yaml"
    inventory.write_text(inventory.read_text().replace(json.dumps(COMPILES), json.dumps(command)))
    orch("run", "--detach")
    orch.until(lambda: orch.json("show", "@1")["step"])
    for words in (("clear", "dflash"), ("restore", "dflash")):
        assert "dflash-1 is using the compile caches" in orch("cache", *words, check=2).stderr
    orch("cache", "save")
    orch("cache", "clear", "dflash", "--force")
    orch("stop", "dflash-1", "--grace", "1")


def test_what_does_not_fit_is_named_and_not_brought_back(story: Story, short_folder: Path) -> None:
    """Nothing is kept, a name is unknown, nothing is compiled: each says what to do."""
    orch = compiling(story, short_folder)
    orch("deploy")
    said = orch("cache", "restore", "dflash", check=2).stderr
    assert "nothing is kept for dflash as it is now" in said
    assert "`orch cache ls dflash` lists what is kept" in said
    said = orch("cache", "restore", "dflash", "0123", check=2).stderr
    assert "no compile cache of dflash begins with 0123" in said
    assert "there are no compiled kernels" in orch("cache", "save", check=1).stderr
