"""`python -m tui`: options, the source, the app."""

import argparse
import gc
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from orchestrator.api.location import find_inventory, locate
from orchestrator.core.errors import OrchError
from tui.hangup import end_with_terminal
from tui.options import Options
from tui.source import LiveSource, Source

WEB_PORT = 8674


def main(argv: Sequence[str] | None = None) -> int:
    """Run the dashboard and return its exit code."""
    options = _parser().parse_args(argv)
    try:
        source, name, orch = _source(options)
    except OrchError as error:
        sys.stderr.write(f"orch: {error}\n")
        return error.exit_code
    if options.web is not None:
        from tui.web import serve

        return serve(_same(options), options.web)
    # textual-serve has a driver of its own, and no terminal.
    if "TEXTUAL_DRIVER" not in os.environ and not (sys.stdin.isatty() and sys.stdout.isatty()):
        sys.stderr.write("orch: the dashboard needs a terminal. `orch status` needs none.\n")
        return 2
    if "TEXTUAL_DRIVER" not in os.environ:
        end_with_terminal(sys.stdin.fileno())
    # Half of the time to the first picture is imports, and a sixth of that is looking through what
    # they made for garbage; the app collects again from its first picture on.
    gc.disable()
    from tui.app import Dashboard

    app = Dashboard(source, Options(name=name, orch=orch, read_only=options.read_only))
    app.run()
    return app.return_code or 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="orch tui", description="The dashboard.", allow_abbrev=False
    )
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="the inventory (else ORCH_CONFIG, else inventory.yaml here or above)",
    )
    parser.add_argument("--replay", metavar="FILE", type=Path, help="play a recorded situation")
    parser.add_argument(
        "--read-only", action="store_true", help="refuse whatever changes something"
    )
    parser.add_argument(
        "--web",
        metavar="PORT",
        type=int,
        nargs="?",
        const=WEB_PORT,
        help=f"serve it to a browser on this machine (port {WEB_PORT} unless given)",
    )
    return parser


def _same(options: argparse.Namespace) -> list[str]:
    """The words that open the same dashboard, without the web."""
    words = ["--read-only"] if options.read_only else []
    for name in ("config", "replay"):
        if said := getattr(options, name):
            words += [f"--{name}", str(said)]
    return words


def _source(options: argparse.Namespace) -> tuple[Source, str, tuple[str, ...]]:
    """Source, its name, and the argv that calls `orch` for it."""
    if options.replay is not None:
        from tui.replay import ReplaySource

        replay = ReplaySource(options.replay)
        return replay, f"replay: {replay.title}", ()
    location = locate(find_inventory(options.config, os.environ, Path.cwd()), os.environ)
    orch = (sys.executable, "-m", "orchestrator", "--config", str(location.inventory))
    return LiveSource(location), str(location.inventory), orch


if __name__ == "__main__":
    sys.exit(main())
