"""What others may do with what the probe makes: never write to it, whatever the login allows.

Owns the probe's umask, and that of the login, which a tmux server that is started here keeps for
the programs in it. Stdlib only.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

_login: "int | None" = None


def close() -> None:
    """From now on nobody else can write what this process makes."""
    global _login
    _login = os.umask(0o077)
    os.umask(_login | 0o002)


@contextmanager
def of_login() -> Iterator[None]:
    """For the moment in which a program is started that outlives us."""
    if _login is None:
        yield
        return
    before = os.umask(_login)
    try:
        yield
    finally:
        os.umask(before)
