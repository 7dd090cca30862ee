"""Features of the target from files: made once, read by every run of the same corpus.

For small sets alone: at Qwen3-8B's size a token's features are 40 KiB. It owns the files,
one for each document, and the rows laid out of them.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from trainer.batches import Part
from trainer.corpus import Document
from trainer.pair import Pair
from trainer.walk import Sizes, document_features


class FeatureFiles:
    """The files of one set of documents: `folder`/NNNNNN.pt, each [tokens, F]."""

    def __init__(self, folder: Path, documents: Sequence[Document]) -> None:
        self._folder, self._documents = folder, documents

    def make(self, pair: Pair, between: Callable[[], None], *, share: int, shares: int) -> None:
        """Make this share's files that are not there yet; `between` them `between` may raise."""
        self._folder.mkdir(parents=True, exist_ok=True)
        for number in range(share, len(self._documents), shares):
            path = self._path(number)
            if path.is_file():
                continue
            between()
            document = self._documents[number]
            sizes = Sizes(length=len(document.tokens), anchors=1)
            features = document_features(pair, document, sizes)[0]
            draft = path.with_suffix(f".{os.getpid()}")
            torch.save(features.cpu().contiguous(), draft)
            draft.rename(path)

    def ready(self) -> bool:
        """Whether every file is there."""
        return all(self._path(number).is_file() for number in range(len(self._documents)))

    def read(self, number: int) -> Tensor:
        """A document's features [tokens, F], read from the disk as they are used."""
        features: Tensor = torch.load(self._path(number), mmap=True, weights_only=True)
        return features

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:06d}.pt"


class FileFeed:
    """Features of training rows and held-out documents, out of files."""

    def __init__(
        self, training: FeatureFiles, held_out: FeatureFiles, device: torch.device
    ) -> None:
        self._training, self._held_out, self._device = training, held_out, device

    def part(self, part: Part) -> Tensor:
        """Those of a training part [B, S, F]; zero where a row is padding."""
        length = part.batch.shape[1]
        rows = [[self._training.read(number) for number in row] for row in part.members]
        return torch.stack([_filled(row, length) for row in rows]).to(self._device)

    def document(self, number: int, sizes: Sizes) -> Tensor:
        """Those of a held-out document [1, length, F]."""
        return _filled([self._held_out.read(number)], sizes.length)[None].to(self._device)

    def close(self) -> None:
        """Nothing to end."""


def _filled(pieces: Sequence[Tensor], length: int) -> Tensor:
    row_SF = pieces[0].new_zeros(length, pieces[0].shape[1])
    start = 0
    for piece in pieces:
        row_SF[start : start + len(piece)] = piece
        start += len(piece)
    return row_SF
