"""The command line: `python -m trainer --config FILE`, and `pretrain-target`.

It owns arguments and exit codes: 0 done, 1 failed, 2 usage or configuration, 128 + n
stopped by signal n. torch is imported only once there is something to do.
"""

import argparse
import dataclasses
import sys
from pathlib import Path

from trainer.config import ConfigError, load


def main(argv: list[str] | None = None) -> int:
    """Run the command in `argv` and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["pretrain-target"]:
        return _pretrain(arguments[1:])
    return _train(arguments)


def _train(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m trainer",
        description="Train a DFlash drafter. Other command: pretrain-target.",
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
    chosen = parser.parse_args(arguments)
    if chosen.resume and chosen.fresh:
        parser.error("--resume and --fresh exclude each other")
    try:
        config = load(chosen.config, tuple(chosen.settings))
        return _run(config, resume=chosen.resume, fresh=chosen.fresh)
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _run(config: object, *, resume: bool, fresh: bool) -> int:
    from trainer import train
    from trainer.checkpoint import CheckpointError
    from trainer.config import Config
    from trainer.targets import TargetError
    from trainer.textfiles import CorpusError

    assert isinstance(config, Config)
    try:
        return train.main(config, train.start_of(config, resume=resume, fresh=fresh))
    except (TargetError, CorpusError) as error:
        raise ConfigError(str(error)) from error
    except (train.TrainingError, CheckpointError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _pretrain(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m trainer pretrain-target",
        description="Train the byte-level target on Python's own sources, or on given text.",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the .pt to write")
    from trainer.pretrain import Recipe, pretrain

    for key in dataclasses.fields(Recipe):
        if key.name != "out":
            kind = str if key.name == "source" else (float if key.name == "lr" else int)
            parser.add_argument(
                f"--{key.name.replace('_', '-')}", type=kind, default=key.default, metavar="N"
            )
    pretrain(Recipe(**vars(parser.parse_args(arguments))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
