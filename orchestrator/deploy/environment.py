"""What a job finds on its target, taken at deploy, launch and crash, and what changed in between.

Owns the comparison of two such fingerprints and its sentences. The taking is the probe's
(probe/environment.py).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.core.model import Job, Release
from orchestrator.deploy.plan import Caller

Fingerprint = Mapping[str, Any]

_WITHIN_S = 120.0
_SINGLE = ("python", "torch", "cuda", "driver", "kernel")
_ENVIRONMENT = re.compile(r"/(env|releases)/[0-9a-f]{8,}/")
"""Setup's own environment is `env/DIGEST`, seen through the release's `.venv`."""
_SHRANK = 0.9
"""A cache with less than this part of its earlier size has been cleared, not tidied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One thing that is not what it was; None: it was not there."""

    part: str
    """`package`, `variable`, `cache`, `gpus`, or one of python, torch, cuda, driver, kernel."""
    name: str
    before: str | None
    after: str | None
    alarming: bool = False
    """Whether it is said unasked: a cache that shrank, kernels that have to be compiled anew."""

    def __str__(self) -> str:
        if self.before is None:
            return f"{self.name} {self.after} appeared"
        if self.after is None:
            return f"{self.name} {self.before} is gone"
        return f"{self.name} {self.before} -> {self.after}"

    def to_json(self) -> dict[str, Any]:
        """As the API gives it."""
        return {
            "part": self.part,
            "name": self.name,
            "before": self.before,
            "after": self.after,
            "alarming": self.alarming,
            "text": str(self),
        }


async def fingerprint(caller: Caller, job: Job, release: Release | None) -> dict[str, Any]:
    """The environment as the job finds it now; parts that cannot be had are None."""
    folders = [job.target.python_folder] if job.target.python_folder else []
    if release is not None and job.setup is not None:
        folders.insert(0, f"{release.path}/.venv/bin")
    answer: dict[str, Any] = await caller.call(
        "environment",
        timeout_s=_WITHIN_S,
        python="python3",
        env=dict(job.env),
        path_first=folders,
    )
    return answer


def diff(before: Fingerprint, after: Fingerprint) -> tuple[Difference, ...]:
    """What changed from one fingerprint to another, what matters most first."""
    return (
        *_caches(before.get("caches") or {}, after.get("caches") or {}),
        *_singles(before, after),
        *_packages(before, after),
        *_texts("variable", before.get("variables") or {}, after.get("variables") or {}),
    )


def _singles(before: Fingerprint, after: Fingerprint) -> Iterator[Difference]:
    for part in _SINGLE:
        yield from _changed(part, part, before.get(part), after.get(part))
    gpus = [", ".join(filter(None, side.get("gpus") or ())) or None for side in (before, after)]
    yield from _changed("gpus", "gpus", gpus[0], gpus[1])


def _packages(before: Fingerprint, after: Fingerprint) -> Iterator[Difference]:
    first, second = (side.get("packages") or {} for side in (before, after))
    # An interpreter that could not be asked says nothing about its packages.
    if not first or not second:
        return
    for name in sorted({*first, *second}):
        was, now = (side.get(name) or {} for side in (first, second))
        if was.get("version") == now.get("version") and _place(was) != _place(now):
            places = [f"{one['version']} of {_place(one)}" for one in (was, now)]
            yield from _changed("package", name, *places)
        else:
            yield from _changed("package", name, was.get("version"), now.get("version"))


def _place(package: Mapping[str, Any]) -> str:
    """Where a package is from; an environment made anew or linked by another release is one."""
    return _ENVIRONMENT.sub(r"/\1/", str(package.get("from") or ""))


def _texts(part: str, before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[Difference]:
    for name in sorted({*before, *after}):
        yield from _changed(part, name, before.get(name), after.get(name))


def _changed(part: str, name: str, before: Any, after: Any) -> Iterator[Difference]:
    if before != after:
        yield Difference(part=part, name=name, before=before, after=after)


def _caches(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Difference]:
    """Only caches that shrank or vanished: they grow at every run."""
    for path in sorted(before):
        was, now = before[path], after.get(path)
        held, holds = (side["bytes"] if side else 0 for side in (was, now))
        if holds < held * _SHRANK:
            yield Difference(
                part="cache",
                name=f"compile cache {path}",
                before=_size(held),
                after=_size(holds),
                alarming=True,
            )


def warmed(before: Fingerprint, after: Fingerprint) -> Iterator[Difference]:
    """Caches with nothing in them at one launch and something at the later one."""
    held = before.get("caches") or {}
    for path, now in sorted((after.get("caches") or {}).items()):
        was = held.get(path)
        if path in held and now and now["bytes"] and not (was and was["bytes"]):
            yield Difference(
                part="cache",
                name=f"compile cache {path} at launch",
                before=_size(0),
                after=_size(now["bytes"]),
            )


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"
