"""What in an attempt's folder waits for its end to be acknowledged (own_alert.py).

Owns which files that are. Must not: decide that nobody waits any more. Stdlib only.
"""

import os
import re

from .names import AWAITED_FILE, OWN_ALERT_FILE

_ROOM = re.compile(re.escape(OWN_ALERT_FILE) + r"\.\d+\.new")


def forget(directory: str) -> None:
    """Remove the mark, and what a waiter keeps room in; OSError where the disk refuses.

    A removal works on a full disk too. The room goes with the mark: the waiter may be ended with
    the rest of the run before it can tidy up.
    """
    try:
        room = [name for name in os.listdir(directory) if _ROOM.fullmatch(name)]
    except FileNotFoundError:
        return
    for name in (AWAITED_FILE, *room):
        try:
            os.unlink(os.path.join(directory, name))
        except FileNotFoundError:
            # Acknowledged before, or pruned with its folder.
            pass
