"""Where every process of a run stands: from inside, and from its host where inside does not tell.

Owns how py-spy comes to a target that has none: from beside this daemon, if it is installed here,
into a folder beside the probe. docs/decisions/py-spy.md has the reasons.
"""

import logging
import platform
import shutil
import sys
from pathlib import Path
from typing import Any

from orchestrator.core.errors import OrchError
from orchestrator.core.model import Run
from orchestrator.link.copying import copy
from orchestrator.link.ends import Copied, Here
from orchestrator.link.link import Link

WITHIN_S = 90.0

logger = logging.getLogger(__name__)


async def dump(
    link: Link, host: Link | None, run: Run, *, attempt_dir: str, folders: list[str]
) -> dict[str, Any]:
    """The op `dump` of the target; with the host's under `host` where that tells more.

    `host` is the link to the machine below the target, None where the target is one. TargetError
    where the target does not answer.
    """
    asked: dict[str, Any] = {"run": run.id, "uid": run.uid}
    inside: dict[str, Any] = {**asked, "attempt_dir": attempt_dir, "folders": folders}
    found: dict[str, Any] = await link.call("dump", timeout_s=WITHIN_S, **inside)
    if not tells(found) and found["processes"] and await _ship(link, found):
        found = await link.call("dump", timeout_s=WITHIN_S, **inside)
    if host is not None and found["processes"] and not tells(found):
        outside = await _from_host(host, asked)
        if outside is not None:
            found["host"] = outside
    return found


def tells(found: dict[str, Any]) -> bool:
    """Whether the stack of any process is there."""
    return any(one.get("stacks") for one in found["processes"])


async def _from_host(host: Link, asked: dict[str, Any]) -> dict[str, Any] | None:
    outside: dict[str, Any] = {**asked, "attempt_dir": None, "folders": []}
    try:
        found: dict[str, Any] = await host.call("dump", timeout_s=WITHIN_S, **outside)
        if not tells(found) and found["processes"] and await _ship(host, found):
            found = await host.call("dump", timeout_s=WITHIN_S, **outside)
    except OrchError as error:
        logger.info("stacks.host_unheard", extra={"host": host.target.name, "why": str(error)})
        return None
    return found


async def _ship(link: Link, found: dict[str, Any]) -> bool:
    """Send py-spy, where there is none and ours runs there; whether it is there now."""
    ours = py_spy_here()
    if found["py_spy"] is not None or ours is None or found["machine"] != platform.machine():
        return False
    try:
        # Its megabytes, and its turn, are not to outlast it on the link that runs are watched by.
        async with link.bulk() as there:
            await there.call("copy_make", path=found["tools"], kind="folder", mode=0o700, to=None)
            await copy(Here(), str(ours), there, f"{found['tools']}/py-spy", Copied())
    except OrchError as error:
        logger.info("stacks.not_shipped", extra={"target": link.target.name, "why": str(error)})
        return False
    return True


def py_spy_here() -> Path | None:
    """The py-spy of the environment that the daemon runs in, else that of its PATH."""
    beside = Path(sys.executable).parent / "py-spy"
    if beside.exists():
        return beside
    known = shutil.which("py-spy")
    return Path(known) if known else None
