"""What others may do with what the probe makes: never write to it, whatever the login allows.

Owns the probe's umask, which is set once: it is one for all of its threads. A tmux server that is
started here keeps the login's for the programs in it. Stdlib only.
"""

import os

_login = -1


def close() -> None:
    """From now on nobody else can write what this process makes, its group neither."""
    global _login
    _login = os.umask(0o077)
    os.umask(_login | 0o022)


def of_login() -> int:
    """What a program that outlives us starts with, as subprocess takes it; -1: the same as ours."""
    return _login
