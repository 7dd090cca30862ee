"""Small tables on their way to the device, and figures on their way back: nobody waits.

It owns the copies only.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

# Each table starts at a multiple of this many bytes, so that compiled code always sees
# the same alignment and neither copies nor recompiles.
ALIGN = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """CPU tables in one buffer, pinned for a CUDA device; to be made in any thread."""

    buffer: Tensor
    spans: tuple[int, ...]
    """Bytes of each table, with what fills it up."""
    kinds: tuple[tuple[torch.dtype, torch.Size], ...]

    def to(self, device: torch.device) -> list[Tensor]:
        """The tables on `device`, by one copy that the host does not wait for."""
        return self.split(self.buffer.to(device, non_blocking=True))

    def split(self, buffer: Tensor) -> list[Tensor]:
        """The tables in a copy of the buffer."""
        parts = buffer.split(self.spans)
        return [
            part[: shape.numel() * dtype.itemsize].view(dtype).view(shape)
            for part, (dtype, shape) in zip(parts, self.kinds, strict=True)
        ]


def pack(tables: Sequence[Tensor], device: torch.device) -> Packed:
    """Lay the CPU `tables` side by side for `device`."""
    flat = [table.flatten().view(torch.uint8) for table in tables]
    spans = tuple(-(-len(table) // ALIGN) * ALIGN for table in flat)
    buffer = torch.empty(sum(spans), dtype=torch.uint8, pin_memory=device.type == "cuda")
    start = 0
    for table, span in zip(flat, spans, strict=True):
        buffer[start : start + len(table)] = table
        start += span
    kinds = tuple((table.dtype, table.shape) for table in tables)
    return Packed(buffer=buffer, spans=spans, kinds=kinds)


class Readback:
    """Figures of the device that are read later, without waiting for what follows them.

    Reading a CUDA tensor itself would wait for all that was launched since.
    """

    def __init__(self, figures: Sequence[Tensor]) -> None:
        there = torch.stack([figure.detach().double() for figure in figures])
        self._event: torch.cuda.Event | None = None
        self._here = there
        if there.is_cuda:
            self._here = torch.empty(there.shape, dtype=there.dtype, pin_memory=True)
            self._here.copy_(there, non_blocking=True)
            self._event = torch.cuda.Event()
            self._event.record()

    def there(self) -> bool:
        """Whether reading them would not wait."""
        return self._event is None or self._event.query()

    def read(self) -> list[float]:
        """Wait until the figures are there, and no longer."""
        if self._event is not None:
            self._event.synchronize()
        figures: list[float] = self._here.tolist()
        return figures
