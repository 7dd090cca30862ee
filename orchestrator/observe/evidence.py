"""What a target says of itself at a failure, kept before anything is launched again.

Owns the file of one attempt. What the target cannot tell is noted in its place; only a target
that cannot be reached is an error, since it may be asked again. Must not: interpret any of it.
"""

import asyncio
import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from orchestrator.core.errors import OrchError, Unreachable
from orchestrator.core.events import KernelLine
from orchestrator.core.model import Run
from orchestrator.link.link import Link
from orchestrator.observe import stacks

OPS = ("processes", "sessions", "gpus")
LOG_LINES = 2000

logger = logging.getLogger(__name__)


async def collect(
    link: Link,
    file: Path,
    *,
    run: Run,
    attempt_dir: str,
    log: bytes,
    kernel: Sequence[KernelLine],
    host: Link | None = None,
) -> None:
    """Write the evidence to `file`; Unreachable where the target cannot be asked now.

    Of the run's processes that are left, threads and stacks; of its GPUs, `nvidia-smi -q`; what
    NCCL says; the last lines of its log; what the kernel said since it started. `host` is the link
    to the machine below the target, None where the target is one.
    """
    found = {op: await _ask(link, op) for op in OPS}
    found["dump"] = await _dump(link, host, run, attempt_dir)
    found["kernel"] = [{"at": line.at, "line": line.line} for line in kernel]
    found["log"] = log.decode("utf-8", "replace").splitlines()[-LOG_LINES:]
    await asyncio.to_thread(keep, file, found)


def keep(file: Path, found: Any) -> None:
    """Write evidence for its owner alone; a full disk here is no reason to leave a run lying."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file.write_text(json.dumps(found, indent=1))
    except OSError as error:
        logger.warning("evidence.not_kept", extra={"file": str(file), "why": str(error)})


async def _ask(link: Link, op: str, **args: Any) -> Any:
    try:
        return await link.call(op, **args)
    except Unreachable:
        raise
    except OrchError as error:
        return {"error": str(error)}


async def _dump(link: Link, host: Link | None, run: Run, attempt_dir: str) -> Any:
    try:
        return await stacks.dump(link, host, run, attempt_dir=attempt_dir, folders=[])
    except Unreachable:
        raise
    except OrchError as error:
        return {"error": str(error)}
