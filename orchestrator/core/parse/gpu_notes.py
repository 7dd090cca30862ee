"""What is not as it should be with a GPU, in words, by the `extra` of its newest sample.

Reads what the probe has put there; imports nothing, since `orch top` starts with it.
"""

from collections.abc import Mapping
from typing import Any

_THROTTLES: Mapping[int, str] = {
    0x8: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
}


def notes(extra: Mapping[str, Any]) -> tuple[str, ...]:
    """What is not as it should be with a GPU, by the `extra` of its newest sample."""
    found = [str(extra["error"])] if extra.get("error") else []
    found += [f"Xid {extra['xid']}"] if extra.get("xid") is not None else []
    found += throttles(extra.get("throttle_reasons"))
    if extra.get("ecc_uncorrected"):
        found.append(f"{extra['ecc_uncorrected']} uncorrected ECC errors")
    found += _worn(extra)
    links = extra.get("nvlink_errors") or {}
    if total := sum(links.values()):
        found.append(f"{total} NVLink errors")
    if parts := extra.get("mig_devices"):
        found.append(f"MIG, {len(parts)} parts")
    return tuple(found)


def throttles(reasons: int | None) -> list[str]:
    """What slows a GPU down that should not; a power cap at full load is as it should be."""
    return [word for bit, word in _THROTTLES.items() if (reasons or 0) & bit]


def _worn(extra: Mapping[str, Any]) -> list[str]:
    """Of its memory: what was replaced, what waits for a reset, what could not be replaced."""
    found = []
    if rows := extra.get("remapped_rows"):
        _, uncorrected, pending, failed = rows
        found += [f"{uncorrected} rows remapped"] if uncorrected else []
        found += ["a row waits for a reset to be remapped"] if pending else []
        found += ["a row could not be remapped"] if failed else []
    if pages := extra.get("retired_pages"):
        found += [f"{sum(pages)} pages retired"] if sum(pages) else []
        found += ["pages wait for a reset to be retired"] if extra.get("pages_to_retire") else []
    return found
