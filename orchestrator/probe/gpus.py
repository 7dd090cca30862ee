"""Op `gpus`: one sample of every GPU that is seen here, from NVML or else from nvidia-smi.

Owns the choice between the two, and when a GPU counts as free.
"""

import os
import threading
import time
from typing import NamedTuple

from . import nvml, smi
from .frames import Frame
from .holders import forget_others
from .ops import Progress

ANSWER_WITHIN_S = 10.0
"""A driver in trouble blocks a call for ever; nobody must wait with it."""
FIRST_NAMESPACE = "pid:[4026531836]"
"""The kernel's own number for the namespace that it starts with."""
FREE_WITHIN_S = 15.0
FOREIGN_AFTER_S = 3.0
FREE_LOOK_S = 0.2
IDLE_BYTES = 64 * 1024 * 1024
"""Less than any program that computes, more than a display."""
RESERVE_BYTES = 1024 * 1024 * 1024
"""What a driver may keep for itself of a GPU: 615 MiB of an H200's 141 GiB."""

_lock = threading.Lock()
_asked_at = 0.0


def sample_gpus(args: Frame, _progress: Progress) -> Frame:
    """`source`, `samples` and `error`; source None and no sample where there is no driver.

    With `host` the PIDs that the driver gives are those of this place. Answers within some
    seconds, whatever the driver does.
    """
    global _asked_at  # of whoever holds the lock
    if not _lock.acquire(timeout=ANSWER_WITHIN_S):
        return _unanswered()
    _asked_at = time.monotonic()
    answers: list[Frame] = []

    def ask() -> None:
        try:
            frame = _sample_all(bool(args.get("host")) or in_first_namespace())
            forget_others({one["pid"] for gpu in frame["samples"] for one in gpu["processes"]})
        except Exception as exc:  # noqa: BLE001  in a thread of its own it would be lost
            frame = {"source": None, "samples": [], "error": str(exc)}
        finally:
            _lock.release()
        answers.append(frame)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(ANSWER_WITHIN_S)
    return answers[0] if answers else _unanswered()


def _unanswered() -> Frame:
    waited_s = time.monotonic() - _asked_at
    text = f"The NVIDIA driver has not answered a question for {waited_s:.0f} s."
    return {"source": "nvml", "samples": [], "error": text}


def in_first_namespace() -> bool:
    """Whether our PIDs are the machine's own, as the driver's are."""
    try:
        return os.readlink("/proc/self/ns/pid") == FIRST_NAMESPACE
    except OSError:
        return False


def remedy(error: str) -> str:
    """What to do about a complaint of the driver."""
    if "mismatch" in error:
        return (
            "Driver and library are of two versions: reboot the host, or give the container the"
            " host's own version of the library."
        )
    if "lost" in error or "not answered" in error:
        return (
            "A GPU fell off its bus or the driver hangs: the host's kernel log says why. Reboot the"
            " host; a reset (nvidia-smi --gpu-reset) needs everything on the GPU to be ended."
        )
    return "Look at nvidia-smi there."


def _sample_all(on_host: bool) -> Frame:
    try:
        driver = nvml.load()
    except OSError:
        # No such library: nvidia-smi may still be there (it links the same one), or no GPU is.
        return smi.sample(on_host=on_host)
    except Exception as exc:  # noqa: BLE001  pynvml's errors; its module may not be imported
        return _fallback(exc, on_host)
    try:
        samples = nvml.samples(driver, on_host=on_host)
    except driver.py.NVMLError as exc:
        nvml.unload()
        return _fallback(exc, on_host)
    return {"source": "nvml", "samples": samples, "error": _lost(samples)}


def _lost(samples: list[Frame]) -> str | None:
    """The complaint about GPUs that do not answer any more."""
    lost = [one for one in samples if "error" in one["extra"]]
    return "; ".join(f"GPU {one['index']}: {one['extra']['error']}" for one in lost) or None


def _fallback(exc: Exception, on_host: bool) -> Frame:
    frame = smi.sample(on_host=on_host)
    if not frame["samples"]:
        frame["source"] = frame["source"] or "nvml"
        frame["error"] = frame["error"] or f"NVML: {exc}"
    return frame


def is_free(sample: Frame) -> bool:
    """Whether nobody uses a GPU, as far as it tells.

    A driver that does not tell its own reserve from what is used (`reserve_unknown`), as those
    before 510, may show that much on an idle GPU.
    """
    reserve_bytes = RESERVE_BYTES if sample["extra"].get("reserve_unknown") else 0
    used_bytes = sample.get("memory_used_bytes") or 0
    return used_bytes <= IDLE_BYTES + reserve_bytes and not any(
        one["memory_bytes"] is None or one["memory_bytes"] > IDLE_BYTES
        for one in sample["processes"]
    )


class Freed(NamedTuple):
    """What became of GPUs once a run was ended."""

    after_s: float | None
    """Seconds until all of them were free; None where they were not in time, or there is none."""
    gpus: list[int]
    """Which were looked at, by index here."""
    holders: list[Frame]
    """Who holds them, where they did not become free."""


def await_free(progress: Progress, only: frozenset[str] = frozenset()) -> Freed:
    """Wait until GPUs are free: those with these UUIDs, or all where none is named."""
    begun = time.monotonic()
    while True:
        samples = sample_gpus({}, progress)["samples"]
        looked = [one for one in samples if not only or one.get("uuid") in only]
        indexes = [one["index"] for one in looked]
        if not looked:
            return Freed(None, [], [])
        waited = time.monotonic() - begun
        held = [one for one in looked if not is_free(one)]
        if not held:
            return Freed(round(waited, 2), indexes, [])
        holders = [
            {"gpu": s["index"], "uuid": s.get("uuid"), **holder}
            for s in held
            for holder in s["processes"]
        ]
        if waited > FREE_WITHIN_S or (holders and waited > FOREIGN_AFTER_S):
            unseen = [
                {
                    **{"gpu": s["index"], "uuid": s.get("uuid")},
                    **{"pid": None, "memory_bytes": s["memory_used_bytes"]},
                }
                for s in held
            ]
            return Freed(None, indexes, holders or unseen)
        progress({"phase": "gpus", "held": [s["index"] for s in held]})
        time.sleep(FREE_LOOK_S)


def used_by(run: str, directory: str) -> frozenset[str]:
    """UUIDs of the GPUs on which a process of a run is seen; empty where none is told."""
    return frozenset(
        sample["uuid"]
        for sample in sample_gpus({}, lambda _news: None)["samples"]
        if sample.get("uuid")
        and any(
            one.get("run") == run and one.get("run_dir") == directory for one in sample["processes"]
        )
    )


OPS = {"gpus": sample_gpus}
