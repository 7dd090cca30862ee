"""A run's configuration from a TOML file, refused at the door.

Every error names the file, or the --set, and the key. It opens only the one file that it is
given; what values are allowed is config.py's.
"""

import dataclasses
import difflib
import tomllib
import types
import typing
from pathlib import Path

from trainer.config import Config, ConfigError


def load(path: Path, settings: tuple[str, ...] = ()) -> Config:
    """Read `path`, lay the `key=value` settings over it, and check all of it.

    Raises ConfigError, which names the file or the setting, and the key.
    """
    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be read ({error.strerror}); give --config a file"
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not TOML: {error}") from error
    origin: dict[str, str] = {}
    for setting in settings:
        _lay_over(tree, setting, origin)
    return typing.cast(Config, _build(Config, tree, "", str(path), origin))


def dump(config: object) -> dict[str, object]:
    """The whole configuration as plain values, to be saved beside a checkpoint."""
    return dataclasses.asdict(typing.cast(Config, config))


def from_saved(tree: dict[str, object]) -> Config:
    """A configuration as `dump` gave it and a checkpoint keeps it. Raises ConfigError."""
    return typing.cast(Config, _build(Config, tree, "", "the checkpoint's config.json", {}))


def _lay_over(tree: dict[str, object], setting: str, origin: dict[str, str]) -> None:
    key, equals, text = setting.partition("=")
    key = key.strip()
    if not equals or not key:
        raise ConfigError(f"--set {setting}: must be key=value")
    branch = tree
    *parents, leaf = key.split(".")
    for parent in parents:
        below = branch.setdefault(parent, {})
        if not isinstance(below, dict):
            raise ConfigError(f"--set {setting}: {key}: {parent} is a value, not a section")
        branch = below
    branch[leaf] = _value_of(text.strip())
    origin[key] = f"--set {setting}"


def _value_of(text: str) -> object:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _build(
    kind: type, tree: dict[str, object], prefix: str, path: str, origin: dict[str, str]
) -> object:
    hints = typing.get_type_hints(kind)
    values: dict[str, object] = {}
    for name, value in tree.items():
        key = prefix + name
        where = origin.get(key, path)
        if name not in hints:
            near = difflib.get_close_matches(name, hints, n=1)
            hint = f"the nearest is {prefix}{near[0]}" if near else f"known are {', '.join(hints)}"
            raise ConfigError(f"{where}: {key}: unknown key; {hint}")
        hint_type = hints[name]
        if dataclasses.is_dataclass(hint_type):
            if not isinstance(value, dict):
                raise ConfigError(f"{where}: {key}: is a section of keys, not a value")
            values[name] = _build(typing.cast(type, hint_type), value, key + ".", path, origin)
        else:
            values[name] = _checked(value, hint_type, f"{where}: {key}")
    try:
        return kind(**values)
    except ValueError as error:
        key = prefix + str(error).partition(":")[0]
        raise ConfigError(f"{origin.get(key, path)}: {prefix}{error}") from error


def _checked(value: object, wanted: object, where: str) -> object:
    if isinstance(wanted, types.GenericAlias):
        if isinstance(value, list) and all(type(item) is int for item in value):
            return tuple(value)
        raise ConfigError(f"{where}: must be a list of whole numbers, not {value!r}")
    if wanted is float and type(value) is int:
        return float(value)
    if type(value) is not wanted:
        words = {int: "a whole number", float: "a number", str: "a string", bool: "true or false"}
        raise ConfigError(f"{where}: must be {words[typing.cast(type, wanted)]}, not {value!r}")
    return value
