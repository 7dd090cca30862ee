"""A Python program where it is not known which Python is there: the first that is new enough.

Owns the line of shell that looks for it. What the program prints is its caller's.
"""

from collections.abc import Sequence

from orchestrator.core.command import Command

PYTHONS = ("python3", "python3.13", "python3.12", "python3.11", "python3.10")

_FIND = """
for python in "$@"; do
  if "$python" -I -S -c 'import sys; sys.exit(sys.version_info < (3, 10))' </dev/null 2>/dev/null
  then exec "$python" -I -S -c {words}; fi
done
printf '\\norch no-python\\n'
"""


def python_command(text: str, words: Sequence[str], pythons: Sequence[str] = PYTHONS) -> Command:
    """A command that runs the Python `text` with `words`, on the first of `pythons` that can.

    It prints `orch no-python` where none can.
    """
    given = (text, *words)
    kept = " ".join(f"w{number}=${{{number}}}" for number in range(1, len(given) + 1))
    script = f"{kept}; shift {len(given)}" + _FIND.format(
        words=" ".join(f'"$w{number}"' for number in range(1, len(given) + 1))
    )
    return Command(argv=("/bin/sh", "-c", script, "sh", *given, *pythons))
