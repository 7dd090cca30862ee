"""The programs of the zipapp: `attempt DIR` and `adopted DIR` (relays), `serve` (the probe).

Owns the command line only. Each program is imported when it is asked for, so that the relay
carries nothing of the probe.
"""

import sys

USAGE = "usage: probe.pyz attempt|adopted ATTEMPT_DIR | serve --generation N --key KEY"


def main(argv: list[str] | None = None) -> int:
    """Run one of the programs; 2 where the words are wrong."""
    words = sys.argv[1:] if argv is None else argv
    match words:
        case ["attempt", directory]:
            from .attempt import main as attempt

            return attempt(directory)
        case ["adopted", directory]:
            from .adopted import main as adopted

            return adopted(directory)
        case ["serve", "--generation", generation, "--key", key] if generation.isdigit():
            from . import umask
            from .serve import main as serve

            umask.close()
            return serve(int(generation), key)
        case _:
            print(USAGE, file=sys.stderr)  # noqa: T201  the probe has no logging, and this is for a person
            return 2


if __name__ == "__main__":
    raise SystemExit(main())
