"""Opens the files of a run's folder, where the program may have put anything in their places.

Owns the one way in which the relay and the probe open them: no link is followed, nothing is waited
for at a FIFO, and no device is touched. What is refused is left as it lies. Stdlib only.
"""

import errno
import os
import stat

MOST_BYTES = 64 * 1024 * 1024
_ALWAYS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_SAYS_MISPLACED = {errno.ELOOP, errno.EISDIR, errno.ENXIO, errno.ENOTDIR}
"""A link, a folder, a FIFO or a socket where a file is wanted; a link as the folder itself."""


class Misplaced(OSError):
    """In the place of a run's file is something else."""

    def __init__(self, path: str, what: str) -> None:
        super().__init__(errno.EPERM, f"is {what}, and was left alone", path)


def open_folder(path: str) -> int:
    """A descriptor through which `open_file` finds a folder wherever it is moved to."""
    try:
        return os.open(path or ".", _FOLDER)
    except OSError as exc:
        if exc.errno in _SAYS_MISPLACED:
            raise Misplaced(path, "a link or no folder") from exc
        raise


def open_file(path: str, flags: int, *, folder: int | None = None) -> int:
    """Open a regular file, new ones 0600; Misplaced where anything else is in its place.

    `path` is below the descriptor `folder`, if given. Of a file that is to be written there may be
    no second name: what has one is somebody else's as well.
    """
    fd = _open(path, flags, folder)
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        os.close(fd)
        raise Misplaced(path, "no regular file")
    if flags & (os.O_WRONLY | os.O_RDWR) and status.st_nlink > 1:
        os.close(fd)
        raise Misplaced(path, "a file with a second name")
    return fd


def open_fifo(path: str, flags: int) -> int:
    """Open a FIFO; Misplaced where something else is there, ENXIO where nobody reads one."""
    fd = _open(path, flags, None, fifo=True)
    if stat.S_ISFIFO(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    raise Misplaced(path, "no FIFO")


def read_file(path: str) -> bytes:
    """The content of a regular file, or its beginning: a program decides how large it is."""
    with open(open_file(path, os.O_RDONLY), "rb") as file:
        return file.read(MOST_BYTES)


def _open(path: str, flags: int, folder: int | None, *, fifo: bool = False) -> int:
    own = open_folder(os.path.dirname(path)) if folder is None else None
    try:
        return os.open(
            os.path.basename(path), flags | _ALWAYS, 0o600, dir_fd=folder if own is None else own
        )
    except OSError as exc:
        if exc.errno in _SAYS_MISPLACED and not (fifo and exc.errno == errno.ENXIO):
            raise Misplaced(path, "a link or no regular file") from exc
        raise
    finally:
        if own is not None:
            os.close(own)
