"""What a program left to its relay, written down while both live.

Owns the file. A relay that is killed can say nothing any more, and what hides (forked twice, in a
session of its own, with an empty environment) is then nobody's child. Stdlib only.
"""

import os

from . import procfs
from .files import identity_in, read_record, write_record
from .names import ORPHANS_FILE

MOST = 100


class Orphans:
    """The relay's end: `look` is called every now and then and costs one read where nothing is new.

    Without CONFIG_PROC_CHILDREN in the kernel nothing is written down.
    """

    def __init__(self, directory: str, program: int) -> None:
        self._path = os.path.join(directory, ORPHANS_FILE)
        self._program = program
        self._children = f"/proc/self/task/{os.getpid()}/children"
        self._seen = b"%d " % program

    def look(self) -> None:
        """Write down who is there, where that has changed."""
        try:
            with open(self._children, "rb") as file:
                seen = file.read()
            if seen == self._seen:
                return
            pids = [int(word) for word in seen.split()][: MOST + 1]
            entries = (procfs.stat(pid) for pid in pids if pid != self._program)
            found = [[entry.pid, entry.start] for entry in entries if entry is not None]
            write_record(self._path, {"boot_id": procfs.boot_id(), "orphans": found})
            self._seen = seen
        except OSError:
            pass  # no such kernel, or a full disk: it is tried again


def orphans_in(directory: str, name: str) -> "set[tuple[int, int]]":
    """PID and start of each, by the record `name` of an attempt; none after a reboot."""
    record = read_record(os.path.join(directory, name))
    if record is None or record.get("boot_id") != procfs.boot_id():
        return set()
    told = record.get("orphans")
    listed = [one for one in told if isinstance(one, list)] if isinstance(told, list) else []
    pairs = [{"pid": one[0], "start": one[1]} for one in listed if len(one) == 2]
    return {one for pair in pairs if (one := identity_in(pair, "pid", "start")) is not None}
