"""Who this process is among those of a run, and what they agree on.

One process a GPU: on every host the first `layout.targets` run the target, the next
`layout.drafters` train; without targets each drafter has the target beside it. It owns the
process groups. Gradients have a group of their own, and nothing else travels in it.
"""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from trainer.config import Config, ConfigError, LayoutConfig

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup, Work

T = TypeVar("T")
RENDEZVOUS = "TRAINER_RENDEZVOUS"
"""A file where the processes of one host meet, named by launch.py; torchrun names an address."""
SETUP = timedelta(minutes=60)
"""For what comes before the first step: answers, loading, compiling."""
STEP = timedelta(minutes=10)
LINGER_S = 6
"""A process that lost its neighbour leaves later than it: the first death is seen first."""


class PeerLostError(RuntimeError):
    """Another process of the run is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """This process among all, from the variables that the launcher or torchrun sets."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1
    """How many processes share this host."""

    @staticmethod
    def read() -> "Place":
        """From RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE."""
        names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
        rank, size, local, locals_ = (
            int(os.environ.get(n, d)) for n, d in zip(names, "0101", strict=True)
        )
        return Place(rank=rank, size=size, local_rank=local, local_size=locals_)


@dataclass(frozen=True, slots=True, kw_only=True)
class Roles:
    """Who does what, from the layout and the place alone."""

    serves: bool
    """Whether this process runs the target for others."""
    host: int
    number: int
    """Its number among the targets that feed the same drafters, or among all drafters."""
    targets: int
    """How many targets feed a drafter, and how many drafters they feed."""
    fed: int
    makers: int
    """All targets of the run, and this one's number among them."""
    maker: int
    ranks: list[int]
    """Of the drafters."""

    @staticmethod
    def of(layout: LayoutConfig, place: Place) -> "Roles":
        """Every host alike, or the first `target_hosts` with targets alone. Raises ConfigError."""
        apart = layout.target_hosts > 0
        each = layout.drafters if apart else layout.targets + layout.drafters
        first = layout.target_hosts * layout.targets
        if place.size <= first or (place.size - first) % each:
            before = f"{layout.targets} on each of the target_hosts and " if apart else ""
            raise ConfigError(
                f"layout: {layout.targets} targets and {layout.drafters} drafters on each host, "
                f"but {place.size} processes were started: start {before}{each} on each host"
            )
        hosts = (place.size - first) // each
        if apart and place.rank < first:
            return Roles(
                serves=True, host=place.rank // layout.targets, number=place.rank, targets=first,
                fed=place.size - first, makers=first, maker=place.rank,
                ranks=list(range(first, place.size)),
            )  # fmt: skip
        host, local = divmod(place.rank - first, each)
        served = 0 if apart else layout.targets
        serves = local < served
        return Roles(
            serves=serves, host=host + layout.target_hosts,
            number=local if serves else host * layout.drafters + local - served,
            targets=first if apart else served,
            fed=place.size - first if apart else layout.drafters,
            makers=first if apart else hosts * served, maker=host * served + local,
            ranks=[r for r in range(first, place.size) if (r - first) % each >= served],
        )  # fmt: skip


class Crew:
    """The processes of a run, seen from one of them."""

    def __init__(self, config: Config, place: Place) -> None:
        roles = Roles.of(config.layout, place)
        self.place = place
        self.serves, self.host, self.number = roles.serves, roles.host, roles.number
        self.targets, self.fed = roles.targets, roles.fed
        self.makers, self.maker = roles.makers, roles.maker
        self.drafters = len(roles.ranks)
        self.leads = not self.serves and self.number == 0
        self._ranks = roles.ranks
        self._groups: list[ProcessGroup] = []
        self._works: list[Work] = []

    @property
    def name(self) -> str:
        """For a person: `target 2` or `drafter 0`."""
        return f"{'target' if self.serves else 'drafter'} {self.number}"

    def device(self, wanted: str) -> torch.device:
        """The device of this process; a GPU of its own. Raises ConfigError."""
        count = torch.cuda.device_count() if wanted != "cpu" else 0
        if not count:
            return torch.device("cpu" if wanted == "auto" else wanted)
        # One visible GPU: somebody has already given each process its own.
        index = 0 if count == 1 else self.place.local_rank
        if index >= count:
            raise ConfigError(
                f"layout: process {index} of this host has no GPU: {count} are visible"
            )
        torch.cuda.set_device(index)
        return torch.device("cuda", index)

    def share_cores(self, threads: int) -> None:
        """Give torch `threads` CPU threads; 0: a share of the host's cores for each process.

        With all cores each, two processes made the plan of a step 60 ms late: threads
        that wait for one another spin (docs/lab-notes.md, two drafters on two H200s).
        """
        if threads or self.place.local_size > 1:
            cores = len(os.sched_getaffinity(0))
            torch.set_num_threads(threads or max(1, cores // self.place.local_size))

    def join(self, device: torch.device) -> None:
        """Meet the others. Nothing to do for a process alone."""
        if self.place.size == 1:
            return
        file = os.environ.get(RENDEZVOUS)
        dist.init_process_group(
            "gloo", init_method=f"file://{file}" if file else "env://",
            rank=self.place.rank, world_size=self.place.size, timeout=SETUP,
        )  # fmt: skip
        backend = "nccl" if device.type == "cuda" else "gloo"
        control = dist.new_group(self._ranks, backend="gloo", timeout=SETUP)
        gradients = dist.new_group(self._ranks, backend=backend, timeout=STEP)
        self._groups = [control, gradients]

    def leave(self) -> None:
        """Part from the others; not after an error, when they may be gone."""
        if self._groups:
            dist.destroy_process_group()

    def from_leader(self, make: Callable[[], T]) -> T:
        """What the leading drafter made, in every process."""
        if self.place.size == 1:
            return make()
        held: list[Any] = [make() if self.leads else None]
        self._met(lambda: dist.broadcast_object_list(held, src=self._ranks[0]))
        value: T = held[0]
        return value

    def gathered(self, value: T) -> list[T]:
        """Every process's value, by rank."""
        held: list[Any] = [value] * self.place.size
        if self.place.size > 1:
            self._met(lambda: dist.all_gather_object(held, value))
        return held

    def summed(self, values: Sequence[float]) -> list[float]:
        """Sums over the drafters, by the host alone: no device waits for it."""
        total = torch.tensor(values, dtype=torch.float64)
        if self.drafters > 1:
            self._met(lambda: dist.all_reduce(total, group=self._groups[0]))
        out: list[float] = total.tolist()
        return out

    def begin_sum(self, x: Tensor) -> None:
        """Sum `x` over the drafters in place; done once `finish_sums` returns."""
        if self.drafters == 1:
            return
        works = self._works

        def begin() -> None:
            work = dist.all_reduce(x, group=self._groups[1], async_op=True)
            assert work is not None
            works.append(work)

        self._met(begin)

    def spread(self, tensors: Sequence[Tensor], fill: Callable[[int], None]) -> None:
        """Fill each tensor by its number on one drafter, and give it to all."""
        works: list[Work] = []
        for number, tensor in enumerate(tensors):
            owner = number % self.drafters
            if owner == self.number:
                fill(number)
            if self.drafters > 1:
                works += self._given(tensor, owner)
        for work in works:
            self._met(work.wait)

    def _given(self, x: Tensor, owner: int) -> "list[Work]":
        works: list[Work] = []

        def begin() -> None:
            source = self._ranks[owner]
            work = dist.broadcast(x, src=source, group=self._groups[1], async_op=True)
            assert work is not None
            works.append(work)

        self._met(begin)
        return works

    def finish_sums(self) -> None:
        """Wait for the sums that were begun (on CUDA the stream does, not the host)."""
        works, self._works = self._works, []
        for work in works:
            self._met(work.wait)

    def _met(self, meet: Callable[[], object]) -> None:
        try:
            meet()
        except RuntimeError as error:
            time.sleep(LINGER_S)
            raise PeerLostError(f"{self.name}: another process is gone ({error})") from error
