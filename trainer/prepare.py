"""Everything before the first step, in order: device, neighbours, target, documents, drafter.

It builds what train.py then steps with; it takes no step.
"""

import time
from dataclasses import dataclass
from pathlib import Path

import torch

from trainer import attempt
from trainer.attempt import Start, StopFlag
from trainer.batches import Batches
from trainer.config import Config
from trainer.corpus import Answers, Document, without_token
from trainer.crew import Crew
from trainer.drafter import Drafter, new_drafter, start_compilers
from trainer.feed import Feed, Server
from trainer.pair import Pair
from trainer.runlog import RunLog
from trainer.supply import feed_for
from trainer.targets import Target, feature_layers, load_target, mask_token

NAP_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """What the steps need."""

    device: torch.device
    pair: Pair
    batches: Batches
    documents: list[Document]
    """The held-out ones."""
    feed: Feed
    server: Server | None
    """In a process that runs the target for others."""
    resume_from: Path | None
    compiled: bool


def prepare(
    config: Config, start: Start, crew: Crew, device: torch.device, stop: StopFlag, log: RunLog
) -> Ready:
    """Load, make the answers, lay out the rings. Raises ConfigError and StopError."""
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    backend = config.compile
    if backend == "auto":
        backend = "inductor" if device.type == "cuda" else "off"
    if backend == "inductor" and not crew.serves:
        start_compilers()
    crew.share_cores(config.threads)
    apart = crew.targets > 0
    target = load_target(config.target.path, device, dtype, ends_only=apart and not crew.serves)
    layers = feature_layers(config, target)
    mask = mask_token(config, target)
    resume_from = crew.from_leader(lambda: attempt.resume_from(start, log.warn))
    log.record("data", 0)
    log.say("phase data: answers of the target")
    documents, held_out = _documents(config, start, crew, target, stop)
    documents, held_out = without_token(mask, documents), without_token(mask, held_out)
    drafter = _drafter(config, crew, target, len(layers), device, dtype)
    if backend != "off" and not crew.serves:
        drafter.compile_layers(backend)
    pair = Pair(
        drafter=drafter, target=target, layers=layers, block=config.drafter.block,
        window=config.drafter.window, mask_token=mask,
    )  # fmt: skip
    batches = Batches(
        documents, config, mask, device, rank=0 if crew.serves else crew.number,
        ranks=crew.drafters,
    )  # fmt: skip
    feed, server = feed_for(
        config, crew, pair, batches, (documents, held_out), dtype, stop
    )  # fmt: skip
    return Ready(
        device=device, pair=pair, batches=batches, documents=held_out, feed=feed, server=server,
        resume_from=resume_from, compiled=backend != "off",
    )  # fmt: skip


def _drafter(
    config: Config, crew: Crew, target: Target, features: int, device: torch.device,
    dtype: torch.dtype,
) -> Drafter:  # fmt: skip
    shape, layers = target.decoder.shape, config.drafter.layers
    if crew.serves:
        with torch.device("meta"):  # its shape alone: it is trained elsewhere
            return Drafter(shape, layers, features)
    drafter = new_drafter(shape, layers, features, seed=config.seed, device=device, dtype=dtype)
    for layer in drafter.stack():
        layer.ffn.recompute = config.optim.recompute
    return drafter


def _documents(
    config: Config, start: Start, crew: Crew, target: Target, stop: StopFlag
) -> tuple[list[Document], list[Document]]:
    """Training and held-out documents; those who run a target share the work."""
    maker = crew.serves or not crew.targets
    share = crew.maker if crew.serves else crew.number
    shares = crew.makers or crew.drafters
    found: list[list[Document]] = []
    for held_out in (False, True):
        answers = Answers(
            target=target, config=config.corpus, held_out=held_out, seed=config.seed,
            cache=start.folder,
        )  # fmt: skip
        if maker and not answers.ready():
            answers.make(stop.check, share=share, shares=shares)
        while not answers.ready():
            stop.check()
            time.sleep(NAP_S)
        found.append(answers.read())
    return found[0], found[1]
