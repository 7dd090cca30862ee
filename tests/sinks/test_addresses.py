"""Where alerts may go: a test for each rule of an outgoing address, on real receivers."""

import asyncio
import base64
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from orchestrator.clock import SystemClock
from orchestrator.sinks.base import Message, Outcome, Result
from orchestrator.sinks.heartbeat import Heartbeat
from orchestrator.sinks.webhook import WebhookSink
from tests.sinks.alerts import SECRET, alert
from tests.sinks.conftest import OPS
from tests.sinks.receiver import Answer, HurriedClock, Receiver

ONE = Message(id="i1-firing-1", alerts=(alert(),))
HIDDEN = ("hunter2", "s3cret-path", "t0ken")


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    """All that was logged on our side; the receivers of the test log what they get."""
    theirs = ("aiohttp.access", "aiohttp.server")
    return [str(vars(record)) for record in caplog.records if record.name not in theirs]


async def sent(url: str) -> Result:
    """What becomes of one alert to an address."""
    sink = WebhookSink(OPS, SystemClock())
    try:
        return await sink.send(ONE, {"URL": url, "SECRET": SECRET}.get)
    finally:
        await sink.close()


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "ftp://127.0.0.1/x",
        "gopher://127.0.0.1/x",
        "unix:///run/docker.sock",
        "javascript:alert(1)",
        "//127.0.0.1/x",
        "/etc/passwd",
        "http://",
        "http:///x",
        "https://:443/x",
        "http://127.0.0.1:99999/x",
        "http://127.0.0.1:port/x",
        "http://[::1/x",
    ],
)
async def test_only_http_and_https_addresses_are_addresses(url: str) -> None:
    """Anything else is refused by a sentence that names the variable and not its value."""
    result = await sent(url)
    assert (result.outcome, result.text) == (
        Outcome.REFUSED,
        "the value of URL is no http or https address",
    )


async def test_a_private_address_and_an_unusual_port_are_fine() -> None:
    """People run receivers at home: loopback, any port, capital letters and blanks around."""
    receiver = await Receiver().start()
    assert receiver.port > 1024
    url = f"  HTTP://LOCALHOST:{receiver.port}/hook?a=b%20c#part \n"
    assert (await sent(url)).outcome is Outcome.TAKEN
    await receiver.stop()


@pytest.mark.skipif(not socket.has_ipv6, reason="this Python has no IPv6")
async def test_an_ipv6_address_is_an_address() -> None:
    """In brackets, as addresses have it, in the request and in what is said of it."""
    async with listening("::1") as port:
        result = await sent(f"http://[::1]:{port}/hook")
    assert (result.outcome, result.text) == (Outcome.TAKEN, f"[::1]:{port}: 200")


@asynccontextmanager
async def listening(address: str) -> AsyncIterator[int]:
    """A receiver on another address than 127.0.0.1; its port."""

    async def take(request: web.Request) -> web.Response:
        await request.read()
        return web.Response()

    app = web.Application()
    app.router.add_post("/hook", take)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, address, 0).start()
    except OSError as why:
        await runner.cleanup()
        pytest.skip(f"this machine has no {address}: {why}")
    yield runner.addresses[0][1]
    await runner.cleanup()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(status: int) -> None:
    """Who answers for the address could send the alert, and its signature, anywhere."""
    elsewhere = await Receiver().start()
    answer = Answer(status=status, headers={"Location": elsewhere.url})
    receiver = await Receiver(then=answer).start()
    result = await sent(receiver.url)
    assert result.outcome is Outcome.REFUSED
    assert "redirects are not followed; set the new address" in result.text
    assert elsewhere.requests == []
    await receiver.stop()
    await elsewhere.stop()


async def test_words_before_the_host_are_sent_as_a_password_and_never_shown(
    caplog: pytest.LogCaptureFixture, free_port: int
) -> None:
    """Taken, refused, nobody there, no TLS: neither user, password, path nor query is in a text."""
    caplog.set_level(logging.DEBUG)
    receiver = await Receiver(Answer(), Answer(status=500), Answer(cut="before")).start()
    rest = "/s3cret-path?key=t0ken"
    texts = [
        (await sent(f"{scheme}://me:hunter2@127.0.0.1:{port}{rest}")).text
        for scheme, port in (
            *[("http", receiver.port)] * 3, ("https", receiver.port), ("http", free_port),
        )
    ]  # fmt: skip
    login = base64.b64encode(b"me:hunter2").decode()
    assert receiver.requests[0].headers["Authorization"] == f"Basic {login}"
    said = "\n".join([*texts, *logged(caplog)])
    assert not [word for word in (*HIDDEN, login) if word in said]
    assert texts[0] == f"127.0.0.1:{receiver.port}: 200"
    await receiver.stop()


async def test_no_proxy_of_the_environment_sees_an_alert(monkeypatch: pytest.MonkeyPatch) -> None:
    """An alert goes to its address itself, whatever http_proxy says."""
    proxy, receiver = await Receiver().start(), await Receiver().start()
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
    assert (await sent(receiver.url)).outcome is Outcome.TAKEN
    assert (len(receiver.requests), proxy.requests) == (1, [])
    await proxy.stop()
    await receiver.stop()


async def test_no_line_break_of_an_address_becomes_a_header() -> None:
    """What stands behind one is part of the path, escaped, or the address is none."""
    receiver = await Receiver().start()
    await sent(f"http://127.0.0.1:{receiver.port}/hook\r\nX-Forged: yes\r\n\r\n")
    assert all("X-Forged" not in request.headers for request in receiver.requests)
    await receiver.stop()


async def test_a_heartbeat_keeps_to_the_same_rules(caplog: pytest.LogCaptureFixture) -> None:
    """It follows no redirect and shows nothing of its address."""
    caplog.set_level(logging.DEBUG)
    elsewhere = await Receiver().start()
    receiver = await Receiver(
        Answer(status=302, headers={"Location": elsewhere.url}), Answer(cut="before")
    ).start()
    url = f"http://me:hunter2@127.0.0.1:{receiver.port}/s3cret-path?key=t0ken"
    clock = HurriedClock(600.0)
    heart = Heartbeat(lambda: "BEAT", clock, {"BEAT": url}.get, lambda: True)
    beating = asyncio.create_task(heart.run())
    await receiver.until(1)
    beating.cancel()
    await asyncio.gather(beating, return_exceptions=True)
    assert elsewhere.requests == []
    said = "\n".join(logged(caplog))
    assert "heartbeat.refused" in said
    assert not [word for word in HIDDEN if word in said]
    await receiver.stop()
    await elsewhere.stop()


async def test_an_answer_of_another_protocol_is_told_as_such() -> None:
    """The port of something else, as of an sshd: the address is to be mended, not the network."""

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        # Whatever is left unread at the close would take the answer along.
        await reader.readexactly(int(head.lower().partition(b"content-length:")[2].split()[0]))
        writer.write(b"SSH-2.0-OpenSSH_9.2\r\n")
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        result = await sent(f"http://127.0.0.1:{port}/")
    assert result.outcome is Outcome.REFUSED
    assert result.text == f"127.0.0.1:{port}: what it answers is no HTTP"
