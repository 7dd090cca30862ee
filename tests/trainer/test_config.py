"""Configuration errors name the file or the setting, and the key."""

from pathlib import Path

import pytest

from tests.trainer.conftest import TINY
from trainer.config import ConfigError
from trainer.configfile import load


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("total_stepz = 3", "total_stepz: unknown key; the nearest is total_steps"),
        ("[drafter]\nlayrs = 1", "drafter.layrs: unknown key; the nearest is drafter.layers"),
        ("total_steps = 'many'", "total_steps: must be a whole number, not 'many'"),
        ("total_steps = 0", "total_steps: must be 1 or more"),
        ("seed = true", "seed: must be a whole number, not True"),
        ("drafter = 3", "drafter: is a section of keys, not a value"),
        ("[drafter]\nblock = 1", "drafter.block: must be 2 or more"),
        ("[target]\nfeature_layers = [1, 'x']", "target.feature_layers: must be a list of whole"),
        ("[corpus]\nrow_tokens = 10", "corpus.row_tokens: must hold a prompt and its answer, 192"),
        ("total_steps = ", "not TOML"),
    ],
)
def test_a_bad_file_is_refused_by_file_and_key(tmp_path: Path, text: str, wanted: str) -> None:
    """The sentence starts with the file, then the key, then what would do."""
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert wanted in str(caught.value)


def test_a_bad_setting_is_named_as_such() -> None:
    """An error in --set names the setting, not the file."""
    with pytest.raises(ConfigError, match=r"^--set optim.lr=-1: optim.lr: must be above 0"):
        load(TINY, ("optim.lr=-1",))
    with pytest.raises(ConfigError, match=r"^--set seed: must be key=value"):
        load(TINY, ("seed",))


def test_a_setting_is_toml_else_a_string() -> None:
    """Numbers and lists are read as TOML; what TOML refuses is taken as text."""
    config = load(
        TINY, ("total_steps=7", "checkpoint_dir=/some where/x", "target.feature_layers=[1, 3]")
    )
    assert config.total_steps == 7
    assert config.checkpoint_dir == "/some where/x"
    assert config.target.feature_layers == (1, 3)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    """The sentence names the file that is not there."""
    with pytest.raises(ConfigError, match=r"nothing.toml: cannot be read \(No such file"):
        load(tmp_path / "nothing.toml")
