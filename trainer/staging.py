"""Small tables on their way to the device: one pinned buffer and one copy, nobody waits.

It owns the copy only.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

# Each table starts at a multiple of this many elements, so that compiled code always
# sees the same alignment and neither copies nor recompiles.
ALIGN = 64


def stage(tables: Sequence[Tensor], device: torch.device) -> list[Tensor]:
    """The CPU `tables` of one dtype on `device`; the host does not wait for the copy."""
    if device.type == "cpu":
        return list(tables)
    assert len({table.dtype for table in tables}) == 1, "one buffer holds one dtype"
    padded = [-(-table.numel() // ALIGN) * ALIGN for table in tables]
    buffer = torch.empty(sum(padded), dtype=tables[0].dtype, pin_memory=True)
    start = 0
    for table, length in zip(tables, padded, strict=True):
        buffer[start : start + table.numel()] = table.flatten()
        start += length
    there = buffer.to(device, non_blocking=True)
    parts = there.split(padded)
    return [
        part[: table.numel()].view(table.shape) for part, table in zip(parts, tables, strict=True)
    ]
