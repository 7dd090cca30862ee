"""Where a drafter's features come from: the feed that the configuration asks for.

It owns the choice and what the processes of a run agree on for it; the feeds themselves are
feed.py's and feed_files.py's.
"""

import hashlib
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from trainer.attempt import StopFlag
from trainer.batches import Batches
from trainer.config import Config, ConfigError
from trainer.corpus import Document
from trainer.crew import Crew
from trainer.device_slots import DeviceSlots
from trainer.feed import Feed, OwnFeed, RingFeed, Server
from trainer.feed_files import FeatureFiles, FileFeed
from trainer.pair import Pair
from trainer.ring import Ring, RingError
from trainer.wire import Address, Receiver, Wire

NAP_S = 0.05
Documents = tuple[list[Document], list[Document]]
"""For training, and held out."""


def feed_for(
    config: Config, crew: Crew, pair: Pair, batches: Batches, documents: Documents,
    dtype: torch.dtype, stop: StopFlag,
) -> tuple[Feed, Server | None]:  # fmt: skip
    """The feed of a drafter, and in a process that runs the target for others its server.

    Raises ConfigError and StopError.
    """
    own = OwnFeed(pair, documents[1])
    if config.target.feature_files:
        return _files(config, crew, pair, documents, dtype, stop), None
    if not crew.targets:
        return own, None
    try:
        if not crew.serves:
            return _ring_feed(config, crew, pair, dtype, stop), None
        rings = _open_rings(config, crew, pair, dtype)
    except (RingError, OSError) as error:
        raise ConfigError(f"layout: {error}") from error
    return own, Server(
        config=config, crew=crew, pair=pair, batches=batches, documents=documents[1],
        rings=rings, stop=stop,
    )  # fmt: skip


def _files(
    config: Config, crew: Crew, pair: Pair, documents: Documents, dtype: torch.dtype, stop: StopFlag
) -> FileFeed:
    """The feed out of files; those that are not there yet are made, each drafter its share."""
    asked = [pair.target.digest, pair.layers, pair.mask_token, asdict(config.corpus)]
    key = json.dumps([*asked, config.seed, str(dtype)], sort_keys=True)
    folder = Path(config.target.feature_files) / hashlib.sha256(key.encode()).hexdigest()[:16]
    both = [
        FeatureFiles(folder / name, found)
        for name, found in zip(("training", "held-out"), documents, strict=True)
    ]
    for files in both:
        if not files.ready():
            files.make(pair, stop.check, share=crew.number, shares=crew.drafters)
        while not files.ready():
            stop.check()
            time.sleep(NAP_S)
    return FileFeed(both[0], both[1], pair.device)


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """How targets reach a drafter."""

    host: int
    drafter: int
    path: str
    """Of its ring, for targets of its host."""
    handle: bytes
    """Of the slots on its GPU, if it has them there."""
    address: Address | None
    """For targets of other hosts."""


def _ring_feed(
    config: Config, crew: Crew, pair: Pair, dtype: torch.dtype, stop: StopFlag
) -> RingFeed:
    """Make this drafter's ring and offer it; the slots lie on its GPU if all targets reach it."""
    width, slot_bytes = _width(pair), _slot_bytes(config, pair, dtype)
    cuda, near = pair.device.type == "cuda", not config.layout.target_hosts
    ring = Ring.make(config.layout.slots, slot_bytes)
    device = DeviceSlots.make(config.layout.slots, slot_bytes) if cuda and near else None
    receiver = None if near else Receiver(ring, slot_bytes)
    mine: Offer | None = Offer(
        host=crew.host, drafter=crew.number, path=ring.path,
        handle=device.handle if device else b"",
        address=receiver.address if receiver else None,
    )  # fmt: skip
    crew.gathered(mine)
    failed = {number for missed in crew.gathered(set[int]()) for number in missed}
    if device is not None and device.handle and crew.number not in failed:
        ring.use_device(device)
    else:
        if device is not None:
            device.free()
        ring.use_memory(pinned=cuda, take=True)
    return RingFeed(ring, width, dtype, pair.device, stop, receiver)


def _open_rings(
    config: Config, crew: Crew, pair: Pair, dtype: torch.dtype
) -> dict[int, Ring | Wire]:
    """What this target lays features into, for each drafter that it feeds."""
    slot_bytes = _slot_bytes(config, pair, dtype)
    mine: Offer | None = None
    offers = [offer for offer in crew.gathered(mine) if offer is not None]
    rings: dict[int, Ring | Wire] = {}
    near: dict[int, Ring] = {}
    missed: set[int] = set()
    for offer in offers:
        if offer.address is not None:
            rings[offer.drafter] = Wire(offer.address, crew.number)
        elif offer.host == crew.host:
            near[offer.drafter] = Ring.open(offer.path, config.layout.slots, slot_bytes)
            slots = DeviceSlots.open(offer.handle, slot_bytes) if offer.handle else None
            if slots is None:
                missed.add(offer.drafter)
            else:
                near[offer.drafter].use_device(slots)
    failed = {number for others in crew.gathered(missed) for number in others}
    for number, ring in near.items():
        if number in failed:
            ring.use_memory(pinned=pair.device.type == "cuda", take=False)
    return rings | near


def _width(pair: Pair) -> int:
    return len(pair.layers) * pair.target.decoder.shape.hidden


def _slot_bytes(config: Config, pair: Pair, dtype: torch.dtype) -> int:
    size = config.optim.rows * config.corpus.row_tokens * _width(pair) * dtype.itemsize
    return -(-size // 4096) * 4096
