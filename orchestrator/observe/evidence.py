"""What a target says of itself at a failure, kept before anything is launched again.

Owns the file of one attempt. What the target cannot tell is noted in its place; only a target
that cannot be reached is an error, since it may be asked again. Must not: interpret any of it.
"""

import json
import logging
from pathlib import Path
from typing import Any

from orchestrator.core.errors import OrchError, Unreachable
from orchestrator.link.link import Link

OPS = ("processes", "sessions", "gpus")

logger = logging.getLogger(__name__)


async def collect(link: Link, file: Path) -> None:
    """Write the evidence to `file`; Unreachable where the target cannot be asked now."""
    found = {op: await _ask(link, op) for op in OPS}
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file.write_text(json.dumps(found, indent=1))
    except OSError as error:
        # A full disk here is no reason to leave the run lying.
        logger.warning("evidence.not_kept", extra={"file": str(file), "why": str(error)})


async def _ask(link: Link, op: str) -> Any:
    try:
        return await link.call(op)
    except Unreachable:
        raise
    except OrchError as error:
        return {"error": str(error)}
