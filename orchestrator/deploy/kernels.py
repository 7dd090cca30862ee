"""Compile caches as an asset: what one was made with, under which name it is kept, where it fits.

Owns the key and the comparison of two makings. The copying is the probe's (probe/caches.py).
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from orchestrator.core.model import Job
from orchestrator.deploy.plan import Caller

_LIST_WITHIN_S = 120.0
_COPY_WITHIN_S = 600.0
"""From one sign of progress to the next."""

_NAME_CHARS = 12
_TRITONS = ("triton", "pytorch-triton", "triton-nightly")


@dataclass(frozen=True, slots=True, kw_only=True)
class Making:
    """What compiled kernels depend on; None: it is not known, or not there."""

    torch: str | None = None
    triton: str | None = None
    driver: str | None = None
    gpu: str | None = None
    """Architectures as the driver tells them (`sm_90`), else the GPUs' names."""
    code: str | None = None
    """Digest of the release."""

    @classmethod
    def of(cls, fingerprint: Mapping[str, Any], code: str | None) -> Self:
        """What a program of that release would compile with, where the fingerprint was taken."""
        packages = fingerprint.get("packages") or {}
        triton = next((packages[name]["version"] for name in _TRITONS if name in packages), None)
        seen = fingerprint.get("architectures") or filter(None, fingerprint.get("gpus") or ())
        return cls(
            torch=fingerprint.get("torch"),
            triton=triton,
            driver=fingerprint.get("driver"),
            gpu=", ".join(sorted(set(seen))) or None,
            code=code,
        )

    @classmethod
    def read(cls, kept: Mapping[str, Any]) -> Self:
        """From a record on a target."""
        return cls(
            **{part: kept.get(part) for part in ("torch", "triton", "driver", "gpu", "code")}
        )

    @property
    def name(self) -> str:
        """What a cache of this making is kept as."""
        text = json.dumps(asdict(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:_NAME_CHARS]

    def differing(self, other: "Making") -> tuple[str, ...]:
        """Parts in which the other one is not this one."""
        mine, theirs = asdict(self), asdict(other)
        return tuple(part for part in mine if mine[part] != theirs[part])


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A cache that is kept on a target."""

    name: str
    how: str
    """`saved`, or `cleared`: put aside by `orch cache clear`."""
    at: float
    bytes: int
    files: int
    making: Making

    @classmethod
    def read(cls, record: Mapping[str, Any]) -> Self:
        """From the target's record."""
        return cls(
            name=record["name"],
            how=record["how"],
            at=record["at"],
            bytes=record["bytes"],
            files=record["files"],
            making=Making.read(record["made_with"]),
        )

    def to_json(self, now: Making) -> dict[str, Any]:
        """As the API gives it; `differs`: what is not what would be compiled with now."""
        return {
            "name": self.name,
            "how": self.how,
            "at": self.at,
            "bytes": self.bytes,
            "files": self.files,
            "made_with": asdict(self.making),
            "differs": list(now.differing(self.making)),
        }


def best(kept: Iterable[Kept], now: Making) -> Kept | None:
    """The newest that was made with just this, or else with all of this but the code.

    Kernels are looked up by what they compute: those of changed code are compiled anew, no more.
    """
    fitting = [
        one for one in kept if one.how == "saved" and set(now.differing(one.making)) <= {"code"}
    ]
    return max(fitting, key=lambda one: (one.making.code == now.code, one.at), default=None)


async def held(caller: Caller, job: Job) -> tuple[list[dict[str, Any]], list[Kept]]:
    """What the job's caches hold now, by kind, and what is kept of them, newest first."""
    answer = await caller.call(
        "cache_list", timeout_s=_LIST_WITHIN_S, workdir=job.workdir, env=dict(job.env)
    )
    return list(answer["now"]), [Kept.read(one) for one in answer["saved"]]


async def save(caller: Caller, job: Job, making: Making) -> dict[str, Any]:
    """Keep a copy of the job's caches; value: the record, and `dropped`, names of older ones."""
    return await _keep(caller, job, "cache_save", making.name, "saved", making)


async def clear(caller: Caller, job: Job, making: Making) -> dict[str, Any]:
    """Empty the job's caches and keep what was in them; value as of `save`."""
    return await _keep(caller, job, "cache_clear", f"{making.name}-cleared", "cleared", making)


async def restore(caller: Caller, job: Job, name: str) -> dict[str, Any]:
    """Bring back what is kept; value: `files` and `bytes` copied, `there`: files that stood."""
    answer: dict[str, Any] = await caller.call(
        "cache_restore",
        timeout_s=_COPY_WITHIN_S,
        workdir=job.workdir,
        env=dict(job.env),
        name=name,
    )
    return answer


async def _keep(
    caller: Caller, job: Job, op: str, name: str, how: str, making: Making
) -> dict[str, Any]:
    answer: dict[str, Any] = await caller.call(
        op,
        timeout_s=_COPY_WITHIN_S,
        workdir=job.workdir,
        env=dict(job.env),
        name=name,
        how=how,
        made_with=asdict(making),
    )
    return answer
