"""Which features are needed, by whom and in which order: the same list for every process.

Targets make the items of their host's drafters in this order, each the items that are its
turn; a drafter takes its own in this order. So nobody asks, and nobody waits for an answer.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from trainer.config import Config


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """The features of a training part, or of a held-out document."""

    drafter: int
    """Among all drafters."""
    step: int
    part: int = -1
    """The accumulation's part; -1 for a document."""
    document: int = -1


def evaluates_after(config: Config, step: int) -> bool:
    """Whether the drafter is evaluated once `step` steps are done."""
    return step in (0, config.total_steps) or step % config.eval_every == 0


def schedule(config: Config, first_step: int, drafters: int, documents: int) -> Iterator[Item]:
    """All items from `first_step` on; a run that begins is evaluated before its first step."""
    if first_step == 0:
        yield from _documents(0, drafters, documents)
    for step in range(first_step, config.total_steps):
        for part in range(config.optim.accumulate):
            for drafter in range(drafters):
                yield Item(drafter=drafter, step=step, part=part)
        if evaluates_after(config, step + 1):
            yield from _documents(step + 1, drafters, documents)


def _documents(step: int, drafters: int, documents: int) -> Iterator[Item]:
    for document in range(documents):
        yield Item(drafter=document % drafters, step=step, document=document)


def better_split(targets: int, drafters: int, target_s: float, drafter_s: float) -> tuple[int, int]:
    """The split of as many processes that gives the most items a second.

    `target_s` and `drafter_s` are what one process needs for one item.
    """
    total = targets + drafters

    def rate(count: int) -> float:
        return min(count / max(target_s, 1e-9), (total - count) / max(drafter_s, 1e-9))

    best = max(range(1, total), key=lambda count: (rate(count), count == targets))
    return best, total - best
