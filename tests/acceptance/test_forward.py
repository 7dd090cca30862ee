"""`orch forward` on this machine: what hinders it is said before anything is reached."""

import socket
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
