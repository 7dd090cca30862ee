"""The warm process: forks for each order that comes in, until stdin ends.

`python -m tests.nursery FOLDER` listens at FOLDER/orders. An order is one message with three files:
what is to be stdin, stdout and stderr. The answer is two messages: PID, and exit code at the end.
"""

import atexit
import contextlib
import json
import os
import runpy
import select
import signal
import socket
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any, NoReturn

from orchestrator.daemon.inventory_reading import READER
from tests.nursery.warm import warm_up

ONE_ORDER = 1 << 20


class Nursery:
    """Listens, forks and tells how forks ended."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(str(folder / "orders"))
        self._listener.listen(64)
        self._links: dict[int, socket.socket] = {}
        """who asked, by the pidfd of the fork"""

    def serve(self) -> dict[str, Any] | None:
        """Until stdin ends: None. In a fork: its order."""
        poller = select.poll()
        for fd in (0, self._listener.fileno()):
            poller.register(fd, select.POLLIN)
        while True:
            for fd, _ in poller.poll():
                if fd == 0:
                    return None
                if fd != self._listener.fileno():
                    poller.unregister(fd)
                    self._tell_end(fd)
                elif (order := self._take(poller)) is not None:
                    return order

    def _take(self, poller: "select.poll") -> dict[str, Any] | None:
        link, _ = self._listener.accept()
        message, files, _, _ = socket.recv_fds(link, ONE_ORDER, 3)
        if not message:
            link.close()
            return None
        if (pid := os.fork()) == 0:
            link.close()
            self._leave()
            for number, fd in enumerate(files):
                os.dup2(fd, number)
                os.close(fd)
            return {**json.loads(message), "python": str(self._folder / "python")}
        for fd in files:
            os.close(fd)
        pidfd = os.pidfd_open(pid)
        self._links[pidfd] = link
        poller.register(pidfd, select.POLLIN)
        with contextlib.suppress(OSError):
            link.send(b"%d" % pid)
        return None

    def _tell_end(self, pidfd: int) -> None:
        ended = os.waitid(os.P_PIDFD, pidfd, os.WEXITED)
        assert ended is not None
        code = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
        os.close(pidfd)
        with self._links.pop(pidfd) as link, contextlib.suppress(OSError):
            link.send(b"%d" % code)  # who asked may be gone

    def _leave(self) -> None:
        """A fork has nothing of ours open."""
        self._listener.close()
        for pidfd, link in self._links.items():
            os.close(pidfd)
            link.close()


def become(order: dict[str, Any]) -> None:
    """Be the program that the order names."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(order["env"])
    time.tzset()
    os.umask(order["umask"])
    os.chdir(order["folder"])
    if order["leads"]:
        os.setsid()
    sys.executable = order["python"]
    words = order["words"]
    if words[:2] == ["-m", "orchestrator"]:
        sys.path[0] = order["folder"]
        sys.argv = words[1:]
        if words[-2:] == ["daemon", "run"]:
            del sys.modules[READER]  # a daemon reads its inventory apart, and has not loaded this
        runpy.run_module("orchestrator", run_name="__main__", alter_sys=True)
    else:
        assert words[:2] == ["-P", "-c"]
        del sys.path[0]
        sys.argv = words[1:2] + words[3:]
        exec(words[2], {"__name__": "__main__"})


def live(order: dict[str, Any]) -> NoReturn:
    """Be what was ordered, and end as Python does.

    But for freeing what it has, one by one: that would copy all the memory that forks share.
    """
    code: object = 1
    try:
        become(order)
        code = 0
    except SystemExit as leaving:
        code = leaving.code or 0
    except BaseException:  # noqa: BLE001  what ends a Python is printed, whatever it is
        traceback.print_exc()
    finally:
        if not isinstance(code, int):
            print(code, file=sys.stderr)
            code = 1
        threading._shutdown()  # type: ignore[attr-defined]  # it has no public name
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


def main() -> None:
    """Serve; in a fork, be what was ordered."""
    warm_up()
    nursery = Nursery(Path(sys.argv[1]))
    print("warm", flush=True)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # typed at pytest, which still has daemons to end
    order = nursery.serve()
    if order is not None:
        live(order)


if __name__ == "__main__":
    main()
