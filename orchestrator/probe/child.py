"""Starts the program of an attempt on a terminal of its own.

Owns the step from spec to PID. The program gets default signals, its own session and a pty of
200 columns and 50 rows, whoever looks at the pane.
"""

import ctypes
import fcntl
import os
import signal
import struct
import termios

COLUMNS = 200
ROWS = 50
NOT_FOUND = 127
NOT_RUNNABLE = 126
_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent dies: whatever hides, it stays ours.

    Who calls this has to reap them. A kernel that does not know it leaves things as they are.
    """
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def start(argv: list[str], env: dict[str, str], cwd: str) -> tuple[int, int]:
    """PID of the program and the master side of its pty, non-blocking.

    A program that cannot be run says so on its terminal and ends with 127 or 126, as in a shell.
    """
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    pid = os.fork()
    if pid == 0:
        _become(argv, env, cwd, slave)
    os.close(slave)
    os.set_blocking(master, False)
    return pid, master


def _become(argv: list[str], env: dict[str, str], cwd: str, slave: int) -> None:
    status = NOT_RUNNABLE
    try:
        os.setsid()
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
        for fd in (0, 1, 2):
            os.dup2(slave, fd)
        # Ignored signals would stay ignored in the program: its own Ctrl-C and pipes must work.
        for number in (signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.chdir(cwd)
        os.execvpe(argv[0], argv, env)  # noqa: S606  argv comes from the daemon, without a shell
    except FileNotFoundError as exc:
        status = NOT_FOUND
        _complain(argv, cwd, exc)
    except OSError as exc:
        _complain(argv, cwd, exc)
    finally:
        os._exit(status)


def _complain(argv: list[str], cwd: str, exc: OSError) -> None:
    where = exc.filename if exc.filename is not None else argv[0]
    text = f"orch: {argv[0]}: {exc.strerror}: {where} (working folder {cwd})\n"
    os.write(2, text.encode("utf-8", "backslashreplace"))
