"""Options of the commands about orch itself: daemon, dashboard, checks, completion."""

import argparse

from orchestrator.cli.command import KINDS, Command, add_json


def _alert_test(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sink", metavar="SINK", nargs="?", help="all sinks where none is named")
    add_json(parser)


def _daemon_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--listen", metavar="HOST:PORT", help="the API there too, for who has ORCH_API_TOKEN"
    )
    parser.add_argument("--tls-cert", metavar="FILE", help="PEM; needed but on a loopback address")
    parser.add_argument("--tls-key", metavar="FILE", help="its key")


def _install(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--print", action="store_true", help="only print the unit")


def _daemon_status(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--all", action="store_true", help="every daemon of this user")
    add_json(parser)


def _tui(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--read-only", action="store_true", help="refuse whatever changes things")
    parser.add_argument("--replay", metavar="FILE", help="play a recorded situation")
    parser.add_argument(
        "--web",
        metavar="PORT",
        nargs="?",
        const="",
        help="serve it to a browser on this machine",
    )


def _completion(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "shell", choices=("bash", "zsh", "fish", "tcsh", "names"), help="names: what a script asks"
    )
    parser.add_argument(
        "kind",
        nargs="?",
        choices=tuple(dict.fromkeys(KINDS.values())),
        default="runs",
        help="what a script asks for",
    )


ITSELF: dict[str, Command] = {
    "doctor": Command("check", "doctor", "check everything and say the remedy", add_json),
    "alert": Command(
        "",
        "",
        "try whether alerts arrive",
        parts={"test": Command("check", "test_alert", "send one alert to a sink", _alert_test)},
    ),
    "daemon": Command(
        "",
        "",
        "the daemon of this inventory",
        parts={
            "run": Command("daemon", "run", "be the daemon, in the foreground", _daemon_run),
            "start": Command("daemon", "start", "start it in the background", add_json),
            "stop": Command("daemon", "stop", "end it; runs go on"),
            "install": Command("install", "install", "as a systemd user unit", _install),
            "status": Command("daemon", "status", "whether it runs, and where", _daemon_status),
        },
    ),
    "tui": Command("enter", "tui", "the dashboard", _tui),
    "completion": Command("completion", "completion", "a completion script", _completion),
    "manual": Command("completion", "manual", "the manual page, for `man -l -`"),
}
