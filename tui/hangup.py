"""A dashboard whose terminal is gone ends, also where nobody sends it the signal for that.

Owns one thread that sleeps until then. Textual would go on: its input thread spins on the end of
file, and its writer waits for ever.
"""

import os
import select
import signal
import threading


def end_with_terminal(fd: int) -> None:
    """Let SIGHUP end this program once the terminal of `fd` has hung up."""
    threading.Thread(target=_wait, args=(fd,), name="orch-hangup", daemon=True).start()


def _wait(fd: int) -> None:
    poll = select.poll()
    poll.register(fd, 0)  # a hang-up is told whatever is asked for
    poll.poll()
    os.kill(os.getpid(), signal.SIGHUP)
    os._exit(128 + signal.SIGHUP)  # started by nohup, it ignores the signal
