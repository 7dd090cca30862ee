"""What a target's system refuses a deploy -> a sentence with its remedy.

Gives the deploy up where more of it could not succeed either. Stdlib only and Python 3.10.
"""

from __future__ import annotations

import errno
import functools
import os
from typing import TYPE_CHECKING

from . import manifest as wire
from .claims import give_up, why_given_up
from .errors import OpError
from .workdir import Workdir

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Args = dict[str, Any]
    Progress = Callable[[Args], None]
    Op = Callable[[Args, Progress], Args]


def told(op: Op) -> Op:
    """Turn what the system refuses into a sentence with its remedy."""

    @functools.wraps(op)
    def wrapped(args: Args, progress: Progress) -> Args:
        workdir = Workdir(args["workdir"])
        try:
            return op(args, progress)
        except wire.ManifestError as exc:
            raise OpError("DeployError", f"the deploy was not understood: {exc}.") from exc
        except OSError as exc:
            raise _failed(workdir, args, exc) from exc

    return wrapped


def _failed(workdir: Workdir, args: Args, exc: OSError) -> OpError:
    """What the system refused, as a sentence; why the deploy was given up, where it was."""
    refused = _refused(workdir, exc)
    if "deploy" not in args:
        return refused
    digest, deploy = args["digest"], args["deploy"]
    if exc.errno in (errno.ENOSPC, errno.EDQUOT):
        give_up(workdir, digest, deploy, refused)
    return why_given_up(workdir, digest, deploy) or refused


def _refused(workdir: Workdir, exc: OSError) -> OpError:
    where = os.fsdecode(exc.filename) if isinstance(exc.filename, (str, bytes)) else workdir.path
    remedy = {
        errno.ENOSPC: "Free some (`orch prune` removes old releases), then deploy again.",
        errno.EDQUOT: "Raise the quota or free some space, then deploy again.",
        errno.EACCES: "Give the target's user the right to write there, or choose another workdir.",
        errno.EROFS: "Choose a workdir on a file system that can be written.",
    }.get(exc.errno or 0, "Look at the job's `workdir`, or choose another one.")
    return OpError("DeployError", f"{where}: {exc.strerror}; {workdir.unchanged()}.", remedy)
