"""The command line: `python -m trainer --config FILE`, `pretrain-target` and `export`.

It owns arguments and exit codes: 0 done, 1 failed, 2 usage or configuration, 128 + n
stopped by signal n. torch is imported only once there is something to do.
"""

import argparse
import dataclasses
import sys
from pathlib import Path

from trainer.config import ConfigError
from trainer.configfile import load
from trainer.launch import launch, needed

RACE = """--layout threads-naive runs small drafters on noise as threads of one process, as
the crashing pipeline did. Expect with torch 2.11, cold caches and two H200s (launches counted
there, docs/lab-notes.md): none 20 of 20 crash, warmup 8 of 8, lock 8 of 8, rwlock none of 20,
thread-local-flag none of 8 (a segmentation fault stays possible: 1 of 10 on CPU). Fewer crash
where steps are alike and few: 7, 7 and 4 of ten in a smaller program. The default layout, one
process for each drafter: none of 40, and 1.4 times faster than threads that do not crash."""


def main(argv: list[str] | None = None) -> int:
    """Run the command in `argv` and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["pretrain-target"]:
        return _pretrain(arguments[1:])
    if arguments[:1] == ["export"]:
        return _export(arguments[1:])
    return _train(arguments)


def _train(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m trainer",
        description="Train a DFlash drafter. Other commands: pretrain-target, export.",
    )
    parser.add_argument("--config", type=Path, required=True, metavar="FILE", help="a TOML file")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        dest="settings",
        help="lay a value over the file's; TOML, else taken as a string; may be repeated",
    )
    parser.add_argument(
        "--resume", action="store_true", help="go on from the newest valid checkpoint"
    )
    parser.add_argument(
        "--fresh", action="store_true", help="remove the checkpoints in checkpoint_dir first"
    )
    parser.add_argument(
        "--profile", action="store_true",
        help="write where the time of three steps goes, beside the checkpoints",
    )  # fmt: skip
    race = parser.add_argument_group("the race on purpose", RACE)
    race.add_argument("--layout", choices=("processes", "threads-naive"), default="processes")
    race.add_argument(
        "--race-remedy",
        default="none",
        help="tried against it",
        choices=("none", "warmup", "lock", "rwlock", "thread-local-flag"),
    )
    race.add_argument("--race-attention", choices=("compiled", "direct"), default="compiled")
    race.add_argument("--race-threads", type=int, default=3, metavar="N")
    chosen = parser.parse_args(arguments)
    if chosen.resume and chosen.fresh:
        parser.error("--resume and --fresh exclude each other")
    try:
        config = load(chosen.config, tuple(chosen.settings))
        if chosen.layout == "threads-naive":
            return _race(config, chosen)
        if needed(config):
            return launch(arguments, config)
        return _run(config, chosen)
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _run(config: object, chosen: argparse.Namespace) -> int:
    from trainer import train
    from trainer.attempt import start_of
    from trainer.checkpoint import CheckpointError
    from trainer.config import Config
    from trainer.crew import PeerLostError
    from trainer.figures import TrainingError
    from trainer.targets import TargetError
    from trainer.textfiles import CorpusError
    from trainer.words import WordsError

    assert isinstance(config, Config)
    start = start_of(config, resume=chosen.resume, fresh=chosen.fresh, profile=chosen.profile)
    try:
        return train.main(config, start)
    except (TargetError, CorpusError, WordsError) as error:
        raise ConfigError(str(error)) from error
    except (TrainingError, CheckpointError, PeerLostError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _race(config: object, chosen: argparse.Namespace) -> int:
    import torch

    from trainer.config import Config
    from trainer.race.naive import Plan, run

    assert isinstance(config, Config)
    cuda = config.device == "cuda" or (config.device == "auto" and torch.cuda.is_available())
    deaths = run(
        Plan(
            threads=chosen.race_threads,
            steps=config.total_steps,
            remedy=chosen.race_remedy,
            compiled=chosen.race_attention == "compiled",
            cuda=cuda,
            seed=config.seed,
        )
    )
    for death in deaths:
        print(f"dead: {death}", file=sys.stderr)
    if deaths:
        print(
            "error: drafters are threads of one process, and torch.compile is not safe in threads; "
            "use the default layout, one process for each drafter",
            file=sys.stderr,
        )
    return 1 if deaths else 0


def _pretrain(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m trainer pretrain-target",
        description="Train the byte-level target on Python's own sources, or on given text.",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the .pt to write")
    from trainer.pretrain import Recipe, pretrain
    from trainer.textfiles import CorpusError

    for key in dataclasses.fields(Recipe):
        if key.name != "out":
            kind = str if key.name == "source" else (float if key.name == "lr" else int)
            parser.add_argument(
                f"--{key.name.replace('_', '-')}",
                type=kind,
                default=key.default,
                metavar="PATH" if kind is str else "N",
                help=f"{key.metadata['help']} (%(default)s)",
            )
    recipe = Recipe(**vars(parser.parse_args(arguments)))
    try:
        recipe.check()
        pretrain(recipe)
    except (ConfigError, CorpusError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _export(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m trainer export",
        description="Write a drafter as SGLang and vLLM load DFlash.",
    )
    parser.add_argument(
        "--checkpoint", type=Path, required=True, metavar="FOLDER",
        help="a checkpoint, or a folder of them: its best one",
    )  # fmt: skip
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="to be written")
    parser.add_argument("--force", action="store_true", help="replace an export in that folder")
    chosen = parser.parse_args(arguments)
    from trainer.export import export
    from trainer.targets import TargetError

    try:
        done = export(chosen.checkpoint, chosen.out, force=chosen.force)
    except (ConfigError, TargetError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"exported: step {done.step}, {done.weights:,} weights, {done.folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
