"""The target's features, for a drafter: made in its own process, or by others.

It owns the two ways to get them and, in a process that serves, the loop that makes them.
"""

import time
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from trainer.attempt import StopFlag
from trainer.batches import Batches, Part
from trainer.config import Config
from trainer.corpus import Document
from trainer.crew import Crew
from trainer.pair import Pair
from trainer.ring import Ring
from trainer.schedule import schedule
from trainer.walk import Sizes, document_features
from trainer.wire import Receiver, Wire

PATIENCE_S = 5
"""A process that waits for another one heeds a signal after so long."""


class Feed(Protocol):
    """Features, in the order of schedule.py."""

    def part(self, part: Part) -> Tensor:
        """Those of a training part [B, S, F]."""

    def document(self, number: int, sizes: Sizes) -> Tensor:
        """Those of a held-out document [1, length, F]."""

    def close(self) -> None:
        """Nothing more is wanted."""


class OwnFeed:
    """The target beside the drafter."""

    def __init__(self, pair: Pair, documents: list[Document]) -> None:
        self._pair, self._documents = pair, documents

    def part(self, part: Part) -> Tensor:
        """Run the target, no further than its last feature layer."""
        batch = part.batch.to(self._pair.device)
        return part_features(
            self._pair, batch.tokens_BS, batch.doc_BS, batch.context_position_BS
        )  # fmt: skip

    def document(self, number: int, sizes: Sizes) -> Tensor:
        """Run the target on one document."""
        return document_features(self._pair, self._documents[number], sizes)

    def close(self) -> None:
        """Nothing to end."""


class RingFeed:
    """Features that targets lay down, of this host or by `receiver` of others."""

    def __init__(
        self, ring: Ring, width: int, dtype: torch.dtype, device: torch.device, stop: StopFlag,
        receiver: Receiver | None = None,
    ) -> None:  # fmt: skip
        self.ring, self._width, self._dtype, self._stop = ring, width, dtype, stop
        self._device, self._receiver = device, receiver
        self.count = 0

    def part(self, part: Part) -> Tensor:
        """The next item, which is this part's."""
        return self._next(part.batch.shape)

    def document(self, number: int, sizes: Sizes) -> Tensor:
        """The next item, which is this document's."""
        del number
        return self._next((1, sizes.length))

    def close(self) -> None:
        """Let the targets go."""
        self.ring.close()

    def _next(self, shape: tuple[int, ...]) -> Tensor:
        number, self.count = self.count, self.count + 1
        shape = (*shape, self._width)
        return self.ring.take(number, shape, self._dtype, self._device, self._check)

    def _check(self, seconds: float) -> None:
        if self._receiver is not None:
            self._receiver.check()
        patience(self._stop)(seconds)


class Patience(Protocol):
    """Called while waiting, with the seconds so far."""

    def __call__(self, seconds: float, /) -> None:
        """Raise StopError where a signal has come and the wait is long."""


def patience(stop: StopFlag) -> Patience:
    """A check for waits: a signal is heeded between steps, but not later than PATIENCE_S."""

    def check(seconds: float) -> None:
        if seconds > PATIENCE_S:
            stop.check()

    return check


@torch.no_grad()
def part_features(pair: Pair, tokens_BS: Tensor, doc_BS: Tensor, position_BS: Tensor) -> Tensor:
    """The target's features [B, S, F] of packed rows, on its device."""
    _, features = pair.target.decoder(
        tokens_BS, doc_BS=doc_BS, position_BS=position_BS, feature_layers=pair.layers,
        want_logits=False,
    )  # fmt: skip
    assert features is not None
    return features


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A process that runs the target for its host's drafters."""

    config: Config
    crew: Crew
    pair: Pair
    batches: Batches
    documents: list[Document]
    rings: dict[int, Ring | Wire]
    """By the drafter's number among all."""
    stop: StopFlag

    def serve(self, first_step: int) -> None:
        """Make this target's share of the items until nobody wants more."""
        counts = dict.fromkeys(self.rings, 0)
        sizes, turn, began = Sizes.of(self.documents), 0, time.monotonic()
        check = patience(self.stop)
        items = schedule(self.config, first_step, self.crew.drafters, len(self.documents))
        for item in items:
            ring = self.rings.get(item.drafter)
            if ring is None:
                continue
            number, mine = counts[item.drafter], turn % self.crew.targets == self.crew.number
            counts[item.drafter], turn = number + 1, turn + 1
            if not mine:
                continue
            if item.part >= 0:
                rows = self.batches.rows(item.step, item.part, item.drafter)
                device = self.pair.device
                features = part_features(
                    self.pair, rows.tokens_BS.to(device), rows.doc_BS.to(device),
                    rows.position_BS.to(device),
                )  # fmt: skip
            else:
                features = document_features(self.pair, self.documents[item.document], sizes)
            if not ring.put(number, features, check):
                return
            idle = sum(other.waited_s for other in self.rings.values())
            for other in self.rings.values():
                other.note(self.crew.number, time.monotonic() - began - idle, idle)
