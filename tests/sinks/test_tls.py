"""Why a receiver's certificate is not trusted: what to mend depends on it."""

import asyncio
import os
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lab.certificate import self_signed
from tests.sinks.receiver import Receiver

SEND = """
import asyncio, sys
from orchestrator.clock import SystemClock
from orchestrator.core.model import SinkSpec
from orchestrator.sinks import Message
from orchestrator.sinks.webhook import WebhookSink
from tests.sinks.alerts import alert

async def send():
    sink = WebhookSink(SinkSpec(name="ops", type="webhook", url_env="URL"), SystemClock())
    print((await sink.send(Message(id="m", alerts=(alert(),)), {"URL": sys.argv[1]}.get)).text)
    await sink.close()

asyncio.run(send())
"""
"""In a Python of its own: which authorities count is read once, when it starts."""


@pytest.mark.parametrize(
    ("address", "days", "known", "said"),
    [
        ("127.0.0.1", 36500, True, ": 200"),
        ("127.0.0.1", 36500, False, "not trusted: it is signed by itself"),
        ("127.0.0.1", 365, True, "not trusted: it has expired"),
        ("127.0.0.2", 36500, True, "not trusted: it is for another name than the address has"),
    ],
    ids=["good", "self-signed", "expired", "another name"],
)
async def test_what_is_wrong_with_a_certificate_is_said(
    address: str, days: int, known: bool, said: str, tmp_path: Path
) -> None:
    """Expired, of another name, or of nobody whom SSL_CERT_FILE names: each has its words."""
    certificate = self_signed(tmp_path, address, days=days)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    receiver = await Receiver().start(tls=context)
    pem = tmp_path / "authorities.pem"
    _, begin, rest = certificate.read_bytes().partition(b"-----BEGIN CERT")
    pem.write_bytes(begin + rest if known else b"")
    url = receiver.url.replace("http:", "https:")
    sending = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", SEND, url),
        env={**os.environ, "SSL_CERT_FILE": str(pem)},
        stdout=subprocess.PIPE,
    )
    text, _ = await sending.communicate()
    assert said in text.decode()
    assert len(receiver.requests) == (said == ": 200")
    await receiver.stop()
