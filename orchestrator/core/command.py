"""One command as values, and the only code in which words become a shell line.

Owns quoting, and the clean environment in which every command inside a container starts. Knows
no runtime (runtimes.py) and runs nothing.

Quoting holds for any bytes but NUL, in sh, bash, dash, zsh and fish alike: a backslash and an
exclamation mark are never left inside single quotes, where fish and csh would read them.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

STANDARD_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

MARK = b"\x1eorch\x1e\n"
"""Printed right before a command's own output; what comes earlier is noise of a login shell."""

_PLAIN = re.compile(rb"[A-Za-z0-9_+:,./@-]+\Z")
_PIECE = re.compile(rb"[\\'!]|[^\\'!]+")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")

_AT_FOLDER = 'cd -- "$1" || exit 126; shift; exec "$@"'

_ENTER = r"""
PATH=@PATH@; export PATH
user=$1 folder=$2; shift 2
entry=$(getent passwd "$user" 2>/dev/null || while IFS= read -r line; do
  case $line in "$user":*) printf '%s\n' "$line"; break;; esac
done </etc/passwd)
[ -n "$entry" ] || { echo "orch: there is no user $user in this container" >&2; exit 126; }
name=${entry%%:*} rest=${entry#*:*:}
uid=${rest%%:*} rest=${rest#*:}
gid=${rest%%:*} rest=${rest#*:*:}
home=${rest%%:*} shell=${rest#*:}
if [ -n "$folder" ]; then cd -- "$folder" || exit 126
else cd -- "$home" 2>/dev/null || cd / || exit 126; fi
set -- env -i HOME="$home" USER="$name" LOGNAME="$name" SHELL="${shell:-/bin/sh}" \
  PATH="$PATH" LANG=C.UTF-8 "$@"
me=$(id -u)
[ "$me" = "$uid" ] && exec "$@"
[ "$me" = 0 ] || { echo "orch: user $me here may not become $name" >&2; exit 126; }
as="--reuid $uid --regid $gid --init-groups"
setpriv $as true 2>/dev/null && exec setpriv $as -- "$@"
exec su -s /bin/sh -c 'exec "$@"' -- "$name" sh "$@"
""".replace("@PATH@", STANDARD_PATH)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A program with its arguments; nothing in it is read by a shell.

    `env` and `argv` can be seen by everybody on the host (`ps`): never a secret.
    ValueError where it cannot be passed on: no program, a NUL, a bad variable name.
    """

    argv: tuple[str | bytes, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None
    """Absolute on the target; None: where a login lands."""

    def __post_init__(self) -> None:
        if not self.argv or not self.argv[0]:
            raise ValueError("a command needs a program")
        bad = [name for name in self.env if not _ENV_NAME.match(name)]
        if bad:
            raise ValueError(f"not a name of an environment variable: {bad[0]!r}")
        words = (*self.argv, *self.env.values(), self.cwd or "")
        if any(b"\0" in to_bytes(word) for word in words):
            raise ValueError("a command cannot carry a NUL byte")


_COMPOUND = re.compile(r"[;&|()`\n]")
_SHELLS_OWN = re.compile(
    r"[.:{}\[]|alias|bg|break|case|cd|command|continue|do|done|elif|else|esac|eval|exec|exit|export"
    r"|fi|for|if|jobs|local|read|readonly|return|set|shift|source|test|then|times|trap|type|ulimit"
    r"|umask|unset|until|wait|while"
)


def shell_script(command: str) -> str:
    """What `sh -c` is given for a command line, so that all of it is run.

    One program replaces the shell (`exec`), so that its signal and code are seen as they are.
    What `exec` would cut short or not find (`a && b`, `VAR=1 a`, `cd`, `for`) is left to the shell.
    """
    first = command.split(maxsplit=1)[0] if command.strip() else ""
    if _COMPOUND.search(command) or "=" in first or _SHELLS_OWN.fullmatch(first):
        return command
    return f"exec {command}"


def to_bytes(word: str | bytes) -> bytes:
    """A word as it goes over the wire: UTF-8, bytes of undecodable file names as they were."""
    return word if isinstance(word, bytes) else word.encode("utf-8", "surrogateescape")


def quote(word: str | bytes) -> bytes:
    """One word, quoted so that a shell reads exactly these bytes."""
    raw = to_bytes(word)
    if _PLAIN.match(raw):
        return raw
    pieces = (
        b"\\" + piece if piece in (b"\\", b"'", b"!") else b"'" + piece + b"'"
        for piece in _PIECE.findall(raw)
    )
    return b"".join(pieces) or b"''"


def shell_line(command: Command) -> bytes:
    """The line that makes a login shell replace itself with the command."""
    line = b"exec " + b" ".join(quote(word) for word in (*_assignments(command), *command.argv))
    if command.cwd is None:
        return line
    return b"cd " + quote(_no_option(command.cwd)) + b" && " + line


def marked_line(command: Command, *, on_stderr: bool = False) -> bytes:
    """shell_line, which prints MARK before; the line's own text does not hold MARK's bytes.

    `on_stderr`: on stderr as well, for a caller that shows both.
    """
    mark = b"printf '\\036orch\\036\\n' && "
    return mark + (mark.replace(b" &&", b" >&2 &&") if on_stderr else b"") + shell_line(command)


def as_argv(command: Command) -> tuple[str | bytes, ...]:
    """The same command as one argv, for a program like sudo that takes neither env nor folder."""
    argv = (*_assignments(command), *command.argv)
    if command.cwd is None:
        return argv
    return ("/bin/sh", "-c", _AT_FOLDER, "sh", command.cwd, *argv)


def entering(command: Command, user: str) -> tuple[str | bytes, ...]:
    """An argv that runs the command as `user` of a container, in a clean environment.

    HOME, USER, LOGNAME and SHELL come from the container's passwd, PATH and LANG are standard,
    and the command's own variables follow; of what the runtime hands in, nothing is left.
    Exit status 126 where the user, the right to become it, or the folder is not there.
    """
    pairs = tuple(f"{name}={text}" for name, text in command.env.items())
    return (
        *("/bin/sh", "-c", _ENTER, "sh", user, command.cwd or ""),
        *(*pairs, *_not_an_assignment(command.argv)),
    )


def _assignments(command: Command) -> tuple[str | bytes, ...]:
    if not command.env:
        return ()
    pairs = (f"{name}={text}" for name, text in command.env.items())
    guard = _not_an_assignment(command.argv)[: -len(command.argv)]
    return ("env", *pairs, *guard)


def _not_an_assignment(argv: tuple[str | bytes, ...]) -> tuple[str | bytes, ...]:
    """`env` would take a program with `=` in its name for a variable."""
    if b"=" not in to_bytes(argv[0]):
        return argv
    return ("/bin/sh", "-c", 'exec "$@"', "sh", *argv)


def _no_option(folder: str) -> str:
    return f"./{folder}" if folder.startswith("-") else folder
