"""Targets from files: the shipped byte-level one, one that pretrain-target wrote, or a folder.

It owns the .pt file's form and the byte vocabulary: 256 bytes, the end of a file, and a row
that no text ever uses, which is the drafter's mask token. Hugging Face folders are hf.py's.
"""

import dataclasses
import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from trainer import hf
from trainer.config import Config, ConfigError
from trainer.decoder import Decoder, spread_layers
from trainer.hf import FolderError
from trainer.layers import Shape
from trainer.words import ByteWords, FolderWords, Words, WordsError

END = 256
MASK = 257
NO_MASK = -1
BYTE_VOCAB = 258
BUILTIN = Path(__file__).parent / "weights" / "byte-target.pt"


class TargetError(ValueError):
    """A target that cannot be used; its text names the path and the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A frozen decoder with its words."""

    decoder: Decoder
    end_tokens: tuple[int, ...]
    mask_token: int
    """The first unused row of the embedding, or NO_MASK."""
    digest: str
    """Identifies the weights: answers are cached under it."""
    words: Words = field(default_factory=ByteWords)


def load_target(
    path: str, device: torch.device, dtype: torch.dtype, *, ends_only: bool = False
) -> Target:
    """Load the target at `path`, frozen; with `ends_only` its embedding and head alone.

    Raises TargetError.
    """
    file = BUILTIN if path == "builtin" else Path(path)
    if file.is_dir():
        try:
            return _from_folder(file, device, dtype, ends_only=ends_only)
        except (FolderError, WordsError) as error:
            raise TargetError(str(error)) from error
    if not file.is_file():
        raise TargetError(
            f"target.path: {file}: no such file; give `builtin`, a .pt file or a model's folder"
        )
    content = torch.load(file, map_location="cpu", weights_only=True)
    shape = Shape(**content["shape"])
    decoder = Decoder(shape)
    decoder.load_state_dict({name: tensor.float() for name, tensor in content["weights"].items()})
    if ends_only:
        decoder.layers = torch.nn.ModuleList()
    freeze(decoder)
    return Target(
        decoder=decoder.to(device=device, dtype=dtype),
        end_tokens=(END,),
        mask_token=MASK,
        digest=hashlib.sha256(file.read_bytes()).hexdigest()[:16],
    )


def _from_folder(
    folder: Path, device: torch.device, dtype: torch.dtype, *, ends_only: bool
) -> Target:
    shape = hf.read_shape(folder)
    words = FolderWords(folder)
    decoder = hf.load_decoder(folder, shape, device, dtype, ends_only=ends_only)
    freeze(decoder)
    return Target(
        decoder=decoder,
        end_tokens=hf.end_tokens(folder),
        mask_token=words.size if words.size < shape.vocab else NO_MASK,
        digest=hf.digest_of(folder),
        words=words,
    )


def feature_layers(config: Config, target: Target) -> tuple[int, ...]:
    """The target's layers that feed the drafter. Raises ConfigError."""
    depth = target.decoder.shape.layers
    chosen = config.target.feature_layers
    if not chosen:
        try:
            return spread_layers(config.target.features or config.drafter.layers, depth)
        except ValueError as error:
            raise ConfigError(f"target.features: {error}") from error
    if max(chosen) >= depth:
        raise ConfigError(f"target.feature_layers: the target's layers are 0 to {depth - 1}")
    return chosen


def mask_token(config: Config, target: Target) -> int:
    """The embedding's row that stands for a token not known yet. Raises ConfigError."""
    token = config.drafter.mask_token
    if token >= target.decoder.shape.vocab:
        raise ConfigError(f"drafter.mask_token: {token} is outside the target's vocabulary")
    if token < 0 and target.mask_token == NO_MASK:
        raise ConfigError(
            "drafter.mask_token: every row of the target's embedding is a word's; name one that "
            "no text uses"
        )
    return token if token >= 0 else target.mask_token


def save_target(path: Path, decoder: Decoder) -> None:
    """Write the weights in bfloat16, so that the shipped file stays small."""
    weights: dict[str, Tensor] = {
        name: tensor.to(torch.bfloat16)
        for name, tensor in decoder.state_dict().items()
        if not (decoder.shape.tied and name == "head.weight")
    }
    if decoder.shape.tied:
        weights["head.weight"] = weights["embed.weight"]
    content: dict[str, Any] = {"shape": dataclasses.asdict(decoder.shape), "weights": weights}
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(content, path)


def freeze(decoder: Decoder) -> None:
    """No gradient reaches the target."""
    decoder.requires_grad_(False)
    decoder.eval()
