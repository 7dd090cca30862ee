"""Rows: documents packed to a fixed length, in an order that any step can be asked for.

The order is a fixed map from (step, part, rank, slot) to a row, drawn from the seed and
the epoch alone, so that a resumed run needs no state of it. Every document gets its whole
share of anchors: a row is closed where its block slots would not do.
"""

import torch

from trainer.blocks import Rows
from trainer.config import CorpusConfig
from trainer.corpus import Document


class RowOrder:
    """The endless sequence of packed rows: epoch after epoch, each in its own order."""

    def __init__(self, documents: list[Document], config: CorpusConfig, seed: int) -> None:
        self._documents = documents
        self._config = config
        self._seed = seed
        self._epochs: list[list[list[int]]] = []

    def rows_of_epoch(self, epoch: int) -> list[list[int]]:
        """The documents of each row of `epoch`."""
        while len(self._epochs) <= epoch:
            generator = torch.Generator().manual_seed(self._seed * 1_000_003 + len(self._epochs))
            order = torch.randperm(len(self._documents), generator=generator).tolist()
            self._epochs.append(self._pack(order))
        return self._epochs[epoch]

    def batch(self, first: int, count: int) -> Rows:
        """Rows `first` to `first + count` of the endless sequence."""
        members = self.members(first, count)
        return pack_rows([[self._documents[i] for i in row] for row in members], self._config)

    def members(self, first: int, count: int) -> list[list[int]]:
        """The documents of rows `first` to `first + count`."""
        return [self._row(index) for index in range(first, first + count)]

    def _row(self, index: int) -> list[int]:
        epoch = 0
        while index >= len(self.rows_of_epoch(epoch)):
            index -= len(self.rows_of_epoch(epoch))
            epoch += 1
        return self.rows_of_epoch(epoch)[index]

    def _pack(self, order: list[int]) -> list[list[int]]:
        rows: list[list[int]] = []
        tokens = anchors = 0
        for index in order:
            document = self._documents[index]
            length = len(document.tokens)
            share = min(self._config.anchors, length - document.prompt - 1)
            fits = tokens + length <= self._config.row_tokens
            if not rows or not fits or anchors + share > self._config.row_anchors:
                rows.append([])
                tokens = anchors = 0
            rows[-1].append(index)
            tokens += length
            anchors += share
        return rows


def pack_rows(documents: list[list[Document]], config: CorpusConfig) -> Rows:
    """Lay each list of documents into a row of `row_tokens`, padded with document -1."""
    shape = (len(documents), config.row_tokens)
    token_BS = torch.zeros(shape, dtype=torch.long)
    doc_BS = torch.full(shape, -1)
    position_BS = torch.zeros(shape, dtype=torch.long)
    supervised_BS = torch.zeros(shape, dtype=torch.bool)
    for row, members in enumerate(documents):
        start = 0
        for number, document in enumerate(members):
            stop = start + len(document.tokens)
            span: tuple[int, slice] = (row, slice(start, stop))
            token_BS[span] = torch.tensor(document.tokens)
            doc_BS[span] = number
            position_BS[span] = torch.arange(stop - start)
            supervised_BS[row, start + document.prompt : stop] = True
            start = stop
    return Rows(
        tokens_BS=token_BS, doc_BS=doc_BS, position_BS=position_BS, supervised_BS=supervised_BS
    )
