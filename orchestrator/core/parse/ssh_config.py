"""The hosts that an ssh_config names; what a setting means is left to `ssh -G`."""

import shlex
from dataclasses import dataclass

_PATTERN = frozenset("*?!")


@dataclass(frozen=True, slots=True, kw_only=True)
class SshConfig:
    """Aliases in the order of the file, and the files that it includes, as written."""

    aliases: tuple[str, ...]
    includes: tuple[str, ...]


def parse_ssh_config(text: str) -> SshConfig:
    """Host lines without patterns, and Include lines; lines of no sense are passed over."""
    aliases: dict[str, None] = {}
    includes: list[str] = []
    for line in text.splitlines():
        key, _, rest = line.strip().replace("=", " ", 1).partition(" ")
        try:
            words = shlex.split(rest, comments=True)
        except ValueError:
            continue
        match key.lower():
            case "host":
                aliases |= dict.fromkeys(word for word in words if not _PATTERN & set(word))
            case "include":
                includes += words
            case _:
                pass
    return SshConfig(aliases=tuple(aliases), includes=tuple(includes))
