"""Exit codes and ranks as launchers and supervisors print them.

Owns what a code alone stands for, and the reading of one from a line.
"""

import re

LEFT_WITH = r"(?:exited|ended|failed|died|left) with (?:exit )?(?:code|status)"
"""How launchers and scripts say it, before the number."""

_BY_EXIT = {
    -9: "host_oom",
    137: "host_oom",
    -11: "segfault",
    139: "segfault",
    -6: "segfault",
    134: "segfault",
    -7: "segfault",
    -4: "segfault",
    -8: "segfault",
    -15: "interrupted",
    143: "interrupted",
    -2: "interrupted",
    130: "interrupted",
}


def by_exit_code(code: int) -> str:
    """The signature that an exit code or negative signal alone stands for."""
    return _BY_EXIT.get(code, "elastic_child_failed")


_EXIT_CODE = re.compile(
    r"(?:exit ?code|return code|exit status|returncode)[ :=]+(-?\d{1,3})\b|"
    + LEFT_WITH
    + r" (\d{1,3})\b"
    r"|exited on signal (?P<signal>\d{1,2})\b|^\[\d+\][+-]? +(?:\d+ +)?Exit (\d{1,3})\b",
    re.IGNORECASE,
)
_LOCAL_RANK = re.compile(
    r"\(RANK (\d+)\)|\blocal_rank: (\d+)|\bprocess (\d+) terminated with|\bProcess (\d+) terminated with"
    r"|\bprocess rank (\d+) with PID"
)


_RANK_WORDS = ("RANK ", "rank", "rocess ")
"""One of them is in whatever the pattern matches; it alone would be tried at each letter."""


def exit_code(text: str) -> int | None:
    """The exit code that a line tells, a signal as its negative; None without one."""
    found = _EXIT_CODE.search(text)
    if found is None:
        return None
    if found["signal"]:
        return -int(found["signal"])
    return int(next(filter(None, found.groups())))


def named_rank(text: str) -> int | None:
    """The rank that a launcher names in its words; None without one."""
    if not any(word in text for word in _RANK_WORDS):
        return None
    found = _LOCAL_RANK.search(text)
    return int(next(filter(None, found.groups()))) if found else None
