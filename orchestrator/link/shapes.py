"""What a probe may say, by its shape: it may be hostile, and is checked where it comes in.

Owns the words in which a shape is written, and the shape of every frame. What an op answers is in
answers.py. Must not: know what anything means.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from orchestrator.probe.frames import BadFrame, Frame

MOST_WHOLE = 2**63
MOST_TOLD_BYTES: Mapping[str, int] = {"gpus": 2 * 1024**2, "kernel": 256 * 1024}
"""Of a line that is kept in memory: 256 programs on GPUs, told with their words, make 304 kB."""

MOST_DEEP = 64
"""No driver says half as much; what nests a thousand times is read, but never kept or shown."""


class Kind(NamedTuple):
    """A single value: how it is called, and how it is known."""

    name: str
    fits: Callable[[Any], bool]


class Maybe(NamedTuple):
    """A shape, null, or a key that is not there."""

    shape: Any


class Shallow(NamedTuple):
    """A shape, whatever else is in it: of keys that nobody here knows yet, too."""

    shape: Any


class Each(NamedTuple):
    """An object with any keys, all of whose values have one shape."""

    shape: Any


def _is_number(value: Any) -> bool:
    if type(value) is float:
        return math.isfinite(value)
    return type(value) is int and abs(value) < MOST_WHOLE


TEXT = Kind("a text", lambda value: isinstance(value, str))
FLAG = Kind("true or false", lambda value: isinstance(value, bool))
NUMBER = Kind("a number", _is_number)
WHOLE = Kind("a whole number", lambda value: type(value) is int and abs(value) < MOST_WHOLE)
COUNT = Kind("a count", lambda value: type(value) is int and 0 <= value < MOST_WHOLE)
BYTES = Kind("bytes", lambda value: isinstance(value, bytes))
OBJECT = Kind("an object", lambda value: isinstance(value, dict))
BITS = Kind("64 bits", lambda value: type(value) is int and 0 <= value < 2**64)
READING = Kind("a number", lambda value: BITS.fits(value) or _is_number(value))
"""A driver's counters are unsigned."""

Shape = Kind | Maybe | Shallow | Each | list[Any] | Mapping[str, Any]
"""A list of one shape: a list of such values. A mapping: an object with at least these keys."""

PROCESS: Mapping[str, Shape] = {
    "pid": WHOLE,
    **dict.fromkeys(("memory_bytes", "start", "container_pid"), Maybe(WHOLE)),
    **dict.fromkeys(("command", "run", "run_dir", "pane"), Maybe(TEXT)),
    "container": Maybe(TEXT),
}
_NUMBERS = (
    *("sm_clock_mhz", "memory_clock_mhz", "power_limit_w", "ecc_corrected", "ecc_uncorrected"),
    *("pcie_replays", "xid_at"),
)
GPU: Mapping[str, Shape] = {
    "index": COUNT,
    **dict.fromkeys(("uuid", "name"), Maybe(TEXT)),
    **dict.fromkeys(("memory_used_bytes", "memory_total_bytes"), Maybe(COUNT)),
    **dict.fromkeys(("utilization_percent", "power_w", "temperature_c"), Maybe(NUMBER)),
    "processes": Maybe([PROCESS]),
    "extra": Maybe(
        {
            **dict.fromkeys(_NUMBERS, Maybe(READING)),
            **dict.fromkeys(("throttle_reasons", "xid"), Maybe(BITS)),
            **dict.fromkeys(("error", "pci", "architecture"), Maybe(TEXT)),
            "remapped_rows": Maybe([READING]),
            "retired_pages": Maybe([READING]),
            "nvlink_errors": Maybe(Each(Maybe(READING))),
            "mig_devices": Maybe([OBJECT]),
        }
    ),
}
GPUS: Mapping[str, Shape] = {"source": Maybe(TEXT), "samples": Shallow([GPU]), "error": Maybe(TEXT)}
KERNEL: Mapping[str, Shape] = {
    "t": NUMBER,
    "seq": WHOLE,
    "line": TEXT,
    "container_pid": Maybe(WHOLE),
    **dict.fromkeys(("container", "run", "run_dir"), Maybe(TEXT)),
}
_FRAMES: Mapping[str, Shape] = {
    "hello": {
        "generation": Maybe(WHOLE),
        "pid": Maybe(WHOLE),
        "time": Maybe(NUMBER),
        "features": Maybe([TEXT]),
        **dict.fromkeys(("probe", "python", "boot_id", "hostname", "tmux"), Maybe(TEXT)),
    },
    "bytes": {"t": Maybe(NUMBER)},
    "gap": {"size": COUNT, "reason": TEXT, "offset": COUNT, "t": Maybe(NUMBER)},
    "exit": {"record": OBJECT, "t": Maybe(NUMBER)},
    "gone": {"reason": TEXT, "t": Maybe(NUMBER)},
    "session": {"detached": FLAG, "t": Maybe(NUMBER)},
    "gpus": {"t": NUMBER, **GPUS},
    "kernel": KERNEL,
}
"""Of `bytes` the rest is the watch's to check, of `exit` the record is core/parse's."""


def misfit(shape: Shape, value: Any, where: str = "") -> str | None:
    """What of a value is not of that shape, and is what instead; None where it fits."""
    match shape:
        case Kind():
            return None if shape.fits(value) else f"`{where}` is not {shape.name}"
        case Maybe():
            return None if value is None else misfit(shape.shape, value, where)
        case Shallow():
            deep = f"`{where}` nests deeper than {MOST_DEEP}"
            return deep if _is_deep(value) else misfit(shape.shape, value, where)
        case Each():
            if not isinstance(value, dict):
                return f"`{where}` is not an object"
            return _first(
                misfit(shape.shape, one, _below(where, key)) for key, one in value.items()
            )
        case list():
            if not isinstance(value, list):
                return f"`{where}` is not a list"
            return _first(misfit(shape[0], one, where) for one in value)
        case _:
            if not isinstance(value, dict):
                return f"`{where}` is not an object"
            return _first(
                misfit(one, value.get(key), _below(where, key)) for key, one in shape.items()
            )


def _first(found: Iterable[str | None]) -> str | None:
    return next((one for one in found if one is not None), None)


def _below(where: str, key: str) -> str:
    return f"{where}.{key[:40]}" if where else key[:40]


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MOST_DEEP):
        outer = [one for one in level if isinstance(one, dict | list)]
        if not outer:
            return False
        level = [
            one for each in outer for one in (each.values() if isinstance(each, dict) else each)
        ]
    return True


def require_frame(frame: Frame, num_bytes: int) -> None:
    """BadFrame where a frame of that many bytes is not as frames.py has its kind."""
    kind = frame["kind"]
    if num_bytes > (most := MOST_TOLD_BYTES.get(kind, num_bytes)):
        raise BadFrame(f"a `{kind}` of {num_bytes} bytes; at most {most}")
    shape = _FRAMES.get(kind)
    wrong = misfit(shape, frame) if shape is not None else None
    if wrong is not None:
        raise BadFrame(f"a `{kind}` whose {wrong}")
