"""`--listen`: a token always, TLS or loopback, and nothing for anybody else."""

import ast
import http.client
import inspect
import os
import ssl
import subprocess
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.api import listening as listening_module
from orchestrator.api.listening import checked_door
from orchestrator.core.errors import UsageError
from tests.acceptance.conftest import MakeOrch, Orch, local_job
from tests.lab.certificate import self_signed

TOKEN = "t0ken-of-a-test-which-is-long"


@pytest.mark.parametrize(
    ("address", "token", "said"),
    [
        ("127.0.0.1:0", None, "ORCH_API_TOKEN has no value"),
        ("127.0.0.1:0", "short", "24 characters"),
        ("0.0.0.0:0", TOKEN, "in the clear"),
        ("192.0.2.1:8787", TOKEN, "in the clear"),
        ("localhost:8787", TOKEN, "in the clear"),
        ("[::]:8787", TOKEN, "in the clear"),
        ("8787", TOKEN, "not an address and a port"),
        ("127.0.0.1:99999", TOKEN, "not an address and a port"),
    ],
)
def test_open_doors_are_refused(address: str, token: str | None, said: str) -> None:
    """Without a long token, or in the clear beyond this machine, nothing is listened on."""
    with pytest.raises(UsageError, match=said):
        checked_door(address, None, None, token)


def test_certificate_needs_its_key(tmp_path: Path) -> None:
    """Half a pair, or a file that is none, is refused before anything listens."""
    with pytest.raises(UsageError, match="belong together"):
        checked_door("0.0.0.0:0", "cert.pem", None, TOKEN)
    (tmp_path / "x.pem").write_text("no certificate")
    with pytest.raises(UsageError, match="tls-cert"):
        checked_door("0.0.0.0:0", str(tmp_path / "x.pem"), str(tmp_path / "x.pem"), TOKEN)


@pytest.fixture
def listening(
    make_orch: MakeOrch, short_folder: Path, free_port: int
) -> Iterator[tuple[Orch, int]]:
    """A daemon that listens on a loopback port too."""
    orch = make_orch(local_job(short_folder, "python3 -m played steps --count 1"))
    orch.env["ORCH_API_TOKEN"] = TOKEN
    daemon = orch.start("daemon", "run", "--listen", f"127.0.0.1:{free_port}")
    orch.until(lambda: orch("daemon", "status", check=None).returncode == 0)
    yield orch, free_port
    orch("daemon", "stop")
    daemon.communicate(timeout=30)


def ask(port: int, path: str, token: str | None) -> tuple[int, bytes]:
    """Status and body of a GET."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, body


def test_token_opens_and_nothing_else_does(listening: tuple[Orch, int]) -> None:
    """With the token /metrics and the API answer; without, or with another, every path is 401."""
    orch, port = listening
    for path in ("/metrics", "/v1/snapshot", "/healthz", "/nowhere"):
        for token in (None, "", TOKEN[:-1], TOKEN + "x", TOKEN.upper()):
            status, body = ask(port, path, token)
            assert status == 401
            assert TOKEN.encode() not in body
    status, body = ask(port, "/metrics", TOKEN)
    assert (status, b"orch_target_up" in body) == (200, True)
    assert ask(port, "/v1/snapshot", TOKEN)[0] == 200
    assert ask(port, "/nowhere", TOKEN)[0] == 404
    assert TOKEN not in orch.log()


def test_socket_is_ours_alone(listening: tuple[Orch, int]) -> None:
    """The socket is 0600 in a folder of 0700, and needs no token."""
    orch, _ = listening
    socket = Path(orch.json("daemon", "status")["socket"])
    assert socket.stat().st_mode & 0o777 == 0o600
    assert socket.parent.stat().st_mode & 0o777 == 0o700
    assert socket.stat().st_uid == os.getuid()


@pytest.mark.skipif(os.getuid() != 0, reason="gives a folder to another user")
def test_a_folder_of_somebody_else_is_refused(
    make_orch: MakeOrch, short_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who owns the folder could put a socket of their own in our place: no daemon starts there."""
    runtime = short_folder / "runtime"
    (runtime / "orch").mkdir(parents=True)
    os.chown(runtime / "orch", 65534, 65534)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    orch = make_orch(local_job(short_folder, "python3 -m played steps --count 1"))
    said = orch("daemon", "start", check=1).stderr
    assert f"{runtime}/orch of the daemon's socket belongs to somebody else" in said


def test_the_token_is_compared_in_constant_time() -> None:
    """What the guard looks at are two digests, by the one comparison that tells nothing by time."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(listening_module.guard)))
    compared = [node for node in ast.walk(tree) if isinstance(node, ast.Compare)]
    called = [ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Call)]
    assert compared == []
    assert "hmac.compare_digest(_digest(said), wanted)" in called


def test_tls_serves_whoever_trusts_the_certificate(
    make_orch: MakeOrch, short_folder: Path, free_port: int
) -> None:
    """With a certificate the API answers by https to the token alone, and nobody in clear."""
    certificate = self_signed(short_folder)
    orch = make_orch(local_job(short_folder, "python3 -m played steps --count 1"))
    orch.env["ORCH_API_TOKEN"] = TOKEN
    pair = ("--tls-cert", str(certificate), "--tls-key", str(certificate))
    daemon = orch.start("daemon", "run", "--listen", f"127.0.0.1:{free_port}", *pair)
    orch.until(lambda: orch("daemon", "status", check=None).returncode == 0)
    trusting = ssl.create_default_context(cafile=str(certificate))
    for token, status in ((TOKEN, 200), (TOKEN + "x", 401)):
        connection = http.client.HTTPSConnection(
            "127.0.0.1", free_port, context=trusting, timeout=20
        )
        connection.request("GET", "/v1/snapshot", headers={"Authorization": f"Bearer {token}"})
        assert connection.getresponse().status == status
        connection.close()
    stranger = http.client.HTTPSConnection("127.0.0.1", free_port, timeout=20)
    with pytest.raises(ssl.SSLCertVerificationError):
        stranger.request("GET", "/v1/snapshot")
    with pytest.raises((http.client.HTTPException, ConnectionError)):
        ask(free_port, "/v1/snapshot", TOKEN)
    orch("daemon", "stop")
    daemon.communicate(timeout=30)


def test_daemon_without_a_token_does_not_start(make_orch: MakeOrch, short_folder: Path) -> None:
    """`--listen` without a token ends with 2 and the remedy; nothing listens."""
    orch = make_orch(local_job(short_folder, "python3 -m played steps --count 1"))
    done = subprocess.run(
        orch.argv("daemon", "run", "--listen", "127.0.0.1:0"),
        capture_output=True,
        text=True,
        cwd=orch.folder,
        env={key: value for key, value in orch.env.items() if key != "ORCH_API_TOKEN"},
        timeout=50,
        check=False,
    )
    assert done.returncode == 2
    assert "ORCH_API_TOKEN" in done.stderr
