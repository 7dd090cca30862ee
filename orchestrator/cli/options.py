"""Options of the commands that try signatures, compare runs, and tidy up; the rest: parser.py."""

import argparse

from orchestrator.cli.command import JOB_HELP, Command, add_env, add_json, add_run


def _rules_test(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", metavar="FILE", nargs="*", help="logs; - is standard input")
    add_json(parser)


def _label(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not name or not sign:
        raise argparse.ArgumentTypeError(f"{text!r} is not LABEL=VALUE, such as job=dflash")
    return name, value


def _duration(text: str) -> float:
    from orchestrator.core.inventory.units import parse_duration  # loads pydantic

    seconds = parse_duration(text)
    if not seconds:
        raise argparse.ArgumentTypeError(f"{text!r} is no duration such as 30m, 2h or 1d")
    return seconds


def moment(text: str) -> float:
    """Unix seconds of `10m` (ago), `14:30` (the last one there was), a date with a time."""
    import time

    from orchestrator.core.parse.moment import parse_moment  # loads pydantic

    at = parse_moment(text, time.time())  # noqa: TID251  orchestrator.clock loads asyncio
    if at is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no time such as 10m, 14:30 or 2026-01-31T14:30"
        )
    return at


def _silence_add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "match", metavar="LABEL=VALUE", nargs="*", type=_label, help="job=dflash, alertname=..."
    )
    parser.add_argument("--everything", action="store_true", help="every alert there is")
    parser.add_argument(
        "--for",
        dest="duration",
        metavar="TIME",
        type=_duration,
        help="30m, 2h, 7d; 30 days at most",
    )
    parser.add_argument("-m", "--message", metavar="WHY", default="", help="why nobody must hear")
    add_json(parser)


def _silence_ls(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-a", "--all", action="store_true", help="those that are over too")
    add_json(parser)


def _silence_expire(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("silence", metavar="ID", help="a silence's id, or its beginning")
    add_json(parser)


def _diff(parser: argparse.ArgumentParser) -> None:
    add_run(parser)
    parser.add_argument(
        "other",
        metavar="RUN",
        nargs="?",
        help="told is what changed from the older to the newer; left out: the last good one before",
    )
    parser.add_argument("-p", "--patch", action="store_true", help="the changed lines of code too")
    add_json(parser)


def _repeat(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB", nargs="?", help=JOB_HELP)
    parser.add_argument("-n", "--count", metavar="N", type=int, required=True, help="trials")
    parser.add_argument(
        "--cold-cache", action="store_true", help="an empty compile cache for each trial"
    )
    parser.add_argument("--until-crash", action="store_true", help="end at the first crash")
    parser.add_argument("-m", "--message", metavar="WHY", default="", help="what is tried")
    parser.add_argument("--no-deploy", action="store_true", help="keep what is deployed")
    add_env(parser)
    parser.add_argument("--force", action="store_true", help="launch against a preflight refusal")
    add_json(parser)


def _compare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB")
    parser.add_argument("a", metavar="A", help="a release, its beginning, or a RUN that had it")
    parser.add_argument("b", metavar="B", help="likewise")
    add_json(parser)


def _bisect(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB")
    parser.add_argument("good", metavar="GOOD", help="a release, its beginning, or a RUN of it")
    parser.add_argument("bad", metavar="BAD", help="likewise, deployed later")
    parser.add_argument(
        "-n", "--count", metavar="N", type=int, default=1, help="trials a release (1)"
    )
    add_env(parser)
    add_json(parser)


def _bundle(parser: argparse.ArgumentParser) -> None:
    add_run(parser)
    parser.add_argument("-o", "--output", metavar="FILE", help="else its own name, here")
    add_json(parser)


def _releases(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB", nargs="?", help=JOB_HELP)
    add_json(parser)


def _rollback(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB", nargs="?", help=JOB_HELP)
    parser.add_argument(
        "release",
        metavar="RELEASE",
        nargs="?",
        help="as `orch releases` has it, or its start; the one before where left out",
    )
    add_json(parser)


def _prune(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="only show what would go")
    parser.add_argument(
        "--older-than", metavar="TIME", type=_duration, help="run folders on targets (7d)"
    )
    add_json(parser)


def _cache_ls(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB", nargs="?", help=JOB_HELP)
    add_json(parser)


def _cache_restore(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB")
    parser.add_argument("name", metavar="KEPT", nargs="?", help="left out: the newest that fits")
    parser.add_argument("--force", action="store_true", help="although a run of the job lives")
    add_json(parser)


def _cache_clear(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB")
    parser.add_argument("--force", action="store_true", help="although a run of the job lives")
    add_json(parser)


def _simulate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("signature", metavar="SIGNATURE", help="`orch rules test` knows them all")
    parser.add_argument("--target", metavar="TARGET", help="the first job's where left out")
    add_json(parser)


MORE: dict[str, Command] = {
    "simulate": Command("check", "simulate", "try the whole alarm path", _simulate),
    "releases": Command("releases", "releases", "what a job's targets have", _releases),
    "rollback": Command("ship", "rollback", "go back to an earlier release", _rollback),
    "prune": Command("prune", "prune", "remove old releases, run folders and logs", _prune),
    "cache": Command(
        "",
        "",
        "the compiled kernels of a job",
        parts={
            "ls": Command("cache", "ls", "what there is and what is kept", _cache_ls),
            "save": Command("cache", "save", "keep a copy", _cache_ls),
            "restore": Command("cache", "restore", "bring a kept copy back", _cache_restore),
            "clear": Command("cache", "clear", "empty them and keep a copy", _cache_clear),
        },
    ),
    "bundle": Command("bundle", "bundle", "a run in one archive, secrets removed", _bundle),
    "repeat": Command(
        "trials", "repeat", "N trials, the crash rate", _repeat, takes_rest="[-- ARG ...]"
    ),
    "compare": Command("trials", "compare", "crash rates of two releases", _compare),
    "bisect": Command(
        "trials", "bisect", "which release broke it", _bisect, takes_rest="[-- ARG ...]"
    ),
    "diff": Command("comparing", "diff", "what is different between two runs", _diff),
    "silence": Command(
        "",
        "",
        "alerts that nobody wants to hear",
        parts={
            "add": Command("silence", "add", "keep alerts back", _silence_add),
            "ls": Command("silence", "ls", "list silences", _silence_ls),
            "expire": Command("silence", "expire", "end a silence", _silence_expire),
        },
    ),
    "rules": Command(
        "",
        "",
        "signatures, built-in and the inventory's own",
        parts={"test": Command("rules", "test", "check their samples, or logs", _rules_test)},
    ),
}
