"""Options of the commands that reach a target themselves: attach, exec, trust and their like."""

import argparse

from orchestrator.cli.command import Command, add_json, add_run, port, port_or_any

TARGET_HELP = "a target of the inventory, or root@10.1.2.6/pct:200, gpu3, local"


def add_target(parser: argparse.ArgumentParser) -> None:
    """--target, which leaves the daemon out."""
    parser.add_argument(
        "--target",
        metavar="TARGET",
        help="go there with no daemon; RUN is then a tmux session or a run's id on it",
    )


def _attach(parser: argparse.ArgumentParser) -> None:
    add_run(parser)
    add_target(parser)


def _exec(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar="TARGET", help=TARGET_HELP)


def _trust(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("host", metavar="HOST", help="a host or target, or USER@HOST[:PORT]")
    parser.add_argument("--yes", action="store_true", help="write the keys without asking")
    parser.add_argument(
        "--replace", action="store_true", help="take a key that has changed for the known one"
    )


def _adopt(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar="TARGET", help=TARGET_HELP)
    parser.add_argument(
        "what", metavar="SESSION", help="a tmux session, SESSION:WINDOW.PANE, or a PID"
    )
    parser.add_argument(
        "--take-pipe",
        action="store_true",
        help="end the pipe that the pane has, and take its place",
    )
    parser.add_argument("-m", "--message", metavar="WHY", default="", help="what it is")
    parser.add_argument("--detach", action="store_true", help="return once it is adopted")
    add_json(parser)


def _cp(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="FROM", help="a path here, or TARGET:PATH")
    parser.add_argument("to", metavar="TO", help="a path here, or TARGET:PATH")
    add_json(parser)


def _forward(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="a run, or a target")
    parser.add_argument("port", metavar="PORT", type=port, help="what listens inside")
    parser.add_argument(
        "--local",
        metavar="PORT",
        type=port_or_any,
        help="the port here (0: any); the same if left out",
    )


def _init(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--host",
        metavar="HOST",
        action="append",
        default=[],
        help="as `ssh HOST` has it, or local, or HOST/pct:200; may be given again",
    )
    parser.add_argument(
        "--container",
        metavar="ID",
        action="append",
        default=[],
        help="200, or pct:200, of each --host that names none; may be given again",
    )
    parser.add_argument(
        "--daemon",
        metavar="WHERE",
        help="where the daemon will live: a remark in the file; 'on this machine' or 'on HOST'",
    )
    parser.add_argument("--yes", action="store_true", help="ask nothing, take what is proposed")


REACH: dict[str, Command] = {
    "attach": Command("enter", "attach", "land in a run's tmux session", _attach),
    "exec": Command(
        "there", "run_there", "a command on a target", _exec, takes_rest="-- CMD [ARG ...]"
    ),
    "adopt": Command("adopt", "adopt", "follow what somebody else started", _adopt),
    "cp": Command("copying", "cp", "copy files from or to a target; resumes", _cp),
    "forward": Command("forward", "forward", "a port of a run's target, here", _forward),
    "init": Command("init", "init", "look around and write an inventory", _init),
    "trust": Command("trust", "trust", "show a host's key, and accept it", _trust),
}
