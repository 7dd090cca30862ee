"""A short run of the fuzzer, and an API that hostile requests do not bring down."""

import random
import socket
from pathlib import Path

from bench.fuzz.__main__ import fuzz
from bench.fuzz.inputs import mutated, seeds
from bench.fuzz.readers import READERS
from tests.acceptance.conftest import MakeOrch, local_job


def test_readers_survive_hostile_inputs() -> None:
    """Two thousand inputs: no crash, no hang, and every reader had some."""
    found = fuzz(2000, 7)
    assert found["finds"] == []
    counts = found["by_reader"]
    assert isinstance(counts, dict)
    assert set(counts) == set(READERS)
    assert all(counts.values())


def test_daemon_survives_hostile_requests(make_orch: MakeOrch, short_folder: Path) -> None:
    """Broken HTTP, broken bodies and paths that climb: it answers or hangs up, and lives on."""
    orch = make_orch(local_job(short_folder, "python3 -m played steps --count 1"))
    orch("daemon", "start")
    place = orch.json("daemon", "status")
    rng, pool = random.Random(3), seeds()
    paths = [
        *("/v1/runs/..%2f..%2fetc%2fpasswd", "/v1/runs/%00/log", "/v1/snapshot?since=-1"),
        *("/v1/run", "/v1/silences", "/v1/incidents/x/ack", "/v1/environment", "/v1/rollback"),
    ]
    for number in range(60):
        body = mutated(rng, pool)
        path = rng.choice(paths)
        head = f"{rng.choice(('GET', 'POST', 'PUT'))} {path} HTTP/1.1\r\nHost: x\r\n"
        request = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
        if number % 3 == 0:
            request = mutated(rng, [request])
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(0.3)
            client.connect(place["socket"])
            client.sendall(request)
            client.shutdown(socket.SHUT_WR)
            try:
                answer = client.recv(65536)
            except (TimeoutError, ConnectionResetError):
                answer = b""
        assert b"root:x:" not in answer
    after = orch.json("daemon", "status")
    assert after["pid"] == place["pid"]
    assert "api.failed" not in orch.log()
