"""A trained drafter beside its target, from a checkpoint: for export, and to decode with.

It owns which checkpoint of a folder that is; training resumes by train.py.
"""

from dataclasses import dataclass
from pathlib import Path

import torch

from trainer import checkpoint
from trainer.config import Config, ConfigError
from trainer.configfile import from_saved
from trainer.drafter import Drafter
from trainer.muon import new_optimizer
from trainer.pair import Pair
from trainer.targets import feature_layers, load_target, mask_token


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What a checkpoint held, on the CPU in float32."""

    pair: Pair
    config: Config
    step: int


def restore(source: Path, *, ends_only: bool) -> Restored:
    """The drafter of the checkpoint `source`, or of the best one in that folder.

    With `ends_only` the target is its embedding and head alone. Raises ConfigError where there
    is no checkpoint, and TargetError where the target is not where it was.
    """
    path = source
    if not (path / "manifest.json").is_file():
        found = checkpoint.best(source) or checkpoint.newest_valid(source, print)
        if found is None:
            raise ConfigError(f"--checkpoint: {source}: holds no valid checkpoint")
        path = found
    state, saved = checkpoint.load(path)
    config = from_saved(saved)
    cpu = torch.device("cpu")
    target = load_target(config.target.path, cpu, torch.float32, ends_only=ends_only)
    layers = feature_layers(config, target)
    drafter = Drafter(target.decoder.shape, config.drafter.layers, len(layers))
    new_optimizer(drafter.parameters(), config.optim).load_state(state["optimizer"])
    pair = Pair(
        drafter=drafter.requires_grad_(False), target=target, layers=layers,
        block=config.drafter.block, window=config.drafter.window,
        mask_token=mask_token(config, target),
    )  # fmt: skip
    return Restored(pair=pair, config=config, step=state["step"])
