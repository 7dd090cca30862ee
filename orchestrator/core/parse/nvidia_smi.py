"""`nvidia-smi --query-gpu … --format=csv,noheader` as GPU samples, for the plain-shell fallback.

Owns the query and its rows. What a GPU or a driver does not say is None, never 0.
"""

from dataclasses import dataclass

from orchestrator.core.model import GpuSample

QUERY = (
    "index,uuid,name,memory.used,memory.total,utilization.gpu,power.draw,temperature.gpu,"
    "driver_version,pci.bus_id,power.limit"
)
"""Understood by every driver since 2014."""
RESERVE_APART = 510
"""Drivers before this one do not tell their own reserve of memory from what is used."""

IDLE_BYTES = 64 * 1024 * 1024
"""Less than any program that computes, more than a display."""
RESERVE_BYTES = 1024 * 1024 * 1024
"""What a driver may keep for itself of a GPU: 615 MiB of an H200's 141 GiB."""

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class SmiOutput:
    """What one call said."""

    samples: tuple[GpuSample, ...]
    complaint: str | None
    """Everything that is no row: a driver mismatch, a lost GPU, no device."""


def parse_samples(text: str, query: str = QUERY) -> SmiOutput:
    """Rows of `query` as samples, whatever else was printed as the complaint."""
    columns = query.split(",")
    samples = []
    rest = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(", ")]
        if len(cells) == len(columns) and cells[0].isdigit():
            samples.append(_sample(dict(zip(columns, cells, strict=True))))
        elif line.strip():
            rest.append(line.strip())
    return SmiOutput(samples=tuple(samples), complaint="\n".join(rest) or None)


def looks_free(sample: GpuSample) -> bool:
    """Whether so little memory is used that no program that computes is on it."""
    reserve_bytes = RESERVE_BYTES if sample.extra.get("reserve_unknown") else 0
    return (sample.memory_used_bytes or 0) <= IDLE_BYTES + reserve_bytes


def _sample(row: dict[str, str]) -> GpuSample:
    return GpuSample(
        index=int(row["index"]),
        uuid=_text(row.get("uuid")),
        name=_text(row.get("name")),
        memory_used_bytes=_bytes(row.get("memory.used")),
        memory_total_bytes=_bytes(row.get("memory.total")),
        utilization_percent=_number(row.get("utilization.gpu")),
        power_w=_number(row.get("power.draw")),
        temperature_c=_number(row.get("temperature.gpu")),
        extra={key: value for key, value in _extra(row).items() if value is not None},
    )


def _extra(row: dict[str, str]) -> dict[str, str | float | bool | None]:
    """Under the names that the probe has for them; None where not told."""
    driver = (_text(row.get("driver_version")) or "").partition(".")[0]
    return {
        "reserve_unknown": True if driver.isdigit() and int(driver) < RESERVE_APART else None,
        "pci": _text(row.get("pci.bus_id")),
        "power_limit_w": _number(row.get("power.limit")),
    }


def _text(cell: str | None) -> str | None:
    """None for `[N/A]`, `[Not Supported]`, `[Unknown Error]`, `[GPU is lost]`, `N/A`, `ERR!`."""
    if cell is None or cell.startswith("[") or cell in {"N/A", "ERR!", ""}:
        return None
    return cell


def _number(cell: str | None) -> float | None:
    text = _text(cell)
    if text is None:
        return None
    try:
        return float(text.split(" ")[0])
    except ValueError:
        return None


def _bytes(cell: str | None) -> int | None:
    mebibytes = _number(cell)
    return None if mebibytes is None else int(mebibytes * _MIB)
