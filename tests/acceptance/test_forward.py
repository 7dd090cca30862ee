"""`orch forward` on this machine: what hinders it is said before anything is reached."""

import signal
import socket
import struct
from pathlib import Path

from tests.acceptance.conftest import MakeOrch, local_job


def test_a_port_that_is_in_use_is_said_with_the_remedy(
    make_orch: MakeOrch, short_folder: Path
) -> None:
    """Another program has it: the sentence says so, how to find it, and how to take another."""
    orch = make_orch(local_job(short_folder, "python3 -m played steps --count 1"))
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
        said = orch("forward", "local", "6006", "--local", str(port), check=2).stderr
    assert said == (
        f"orch: port {port} of this machine is in use already. "
        f"Choose another one: --local PORT, or end what holds it: "
        f"`ss -ltnp 'sport = :{port}'` names it.\n"
    )


def test_a_connection_that_is_reset_here_ends_there(
    make_orch: MakeOrch, short_folder: Path
) -> None:
    """A browser that was killed: its connection was kept there, with a channel, for ever."""
    orch = make_orch(local_job(short_folder, "python3 -m played steps --count 1"))
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(30)
        port = str(server.getsockname()[1])
        forwarding = orch.start("forward", "local", port, "--local", "0")
        assert forwarding.stdout is not None
        said = forwarding.stdout.readline()
        caller = socket.create_connection(("127.0.0.1", int(said.split()[0].partition(":")[2])))
        caller.sendall(b"hello")
        there, _ = server.accept()
        with there:
            there.settimeout(30)
            assert there.recv(10) == b"hello"
            at_once = struct.pack("ii", 1, 0)
            caller.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
            caller.close()
            assert there.recv(10) == b""
    forwarding.send_signal(signal.SIGINT)
    assert forwarding.wait(30) == 0
    forwarding.stdout.close()
