"""The webhook receiver and the proxy: they do on demand what networks do by accident."""

from __future__ import annotations

import datetime
import http.client
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.client import HTTPConnection

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from tests.lab.proxy import TcpProxy
from tests.lab.receiver import Answer, Receiver


def post(receiver: Receiver, body: str = "{}", secret: str = "") -> int:
    """Send a webhook signed with SECRET; return the status."""
    headers = {"Content-Type": "application/json", "webhook-id": "msg_1"}
    if secret:
        now = datetime.datetime.now(datetime.UTC)
        headers["webhook-timestamp"] = str(int(now.timestamp()))
        headers["webhook-signature"] = Webhook(secret).sign("msg_1", now, body)
    request = urllib.request.Request(receiver.url, body.encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            answer.read()
            return int(answer.status)
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code


def test_requests_are_kept_with_time_headers_and_body(receiver: Receiver) -> None:
    """A request is there with its arrival time, path, headers and JSON once it was answered."""
    before = time.time()
    assert post(receiver, '{"status": "firing"}') == 200
    (request,) = receiver.wait_for(1)
    assert before <= request.at <= time.time()
    assert (request.path, request.headers["webhook-id"]) == ("/hook", "msg_1")
    assert request.json == {"status": "firing"}


def test_only_the_right_secret_verifies(receiver: Receiver) -> None:
    """A signature made with the receiver's secret is accepted, one with another is not."""
    post(receiver, '{"a": 1}', receiver.secret)
    post(receiver, '{"a": 1}', "whsec_" + "QUJD" * 8)
    right, wrong = receiver.wait_for(2)
    assert receiver.verify(right) == {"a": 1}
    with pytest.raises(WebhookVerificationError):
        receiver.verify(wrong)


def test_answers_follow_the_script(receiver: Receiver) -> None:
    """Scripted answers are given once each and in order, then the default again."""
    receiver.script(
        Answer(status=500), Answer(status=429, headers={"Retry-After": "3"}), Answer(status=410)
    )
    assert [post(receiver) for _ in range(4)] == [500, 429, 410, 200]
    assert [r.status for r in receiver.received] == [500, 429, 410, 200]


def test_an_answer_can_break_off_or_stall(receiver: Receiver) -> None:
    """A cut answer ends in the middle of its body; a slow one keeps the sender waiting."""
    receiver.script(Answer(cut=True), Answer(delay_s=30))
    with pytest.raises(http.client.IncompleteRead):
        post(receiver)
    link = HTTPConnection(receiver.url.split("/")[2], timeout=0.3)
    link.request("POST", "/hook", b"{}")
    with pytest.raises(TimeoutError):
        link.getresponse()
    link.close()
    assert len(receiver.wait_for(2)) == 2


def test_waiting_in_vain_says_what_came(receiver: Receiver) -> None:
    """`wait_for` names the bodies that did arrive when its deadline passes."""
    post(receiver, '{"odd": 1}')
    with pytest.raises(TimeoutError, match="odd"):
        receiver.wait_for(2, timeout_s=0.1)


@pytest.fixture
def proxy(receiver: Receiver) -> Iterator[TcpProxy]:
    """A proxy before the receiver."""
    address, port = receiver.url.split("/")[2].split(":")
    with TcpProxy(address, int(port)) as running:
        yield running


def talk(link: HTTPConnection) -> int:
    """One request over LINK; the status."""
    link.request("POST", "/hook", b"{}")
    answer = link.getresponse()
    answer.read()
    return answer.status


def test_a_stalled_proxy_carries_later_what_waited(proxy: TcpProxy, receiver: Receiver) -> None:
    """While stalled nothing passes and nothing closes; after `resume` the request arrives."""
    link = HTTPConnection("127.0.0.1", proxy.port, timeout=20)
    assert talk(link) == 200
    proxy.stall()
    link.request("POST", "/hook", b"{}")
    with pytest.raises(TimeoutError):
        receiver.wait_for(2, timeout_s=0.2)
    proxy.resume()
    assert link.getresponse().status == 200
    link.close()


def test_a_cut_proxy_resets_until_it_is_restored(proxy: TcpProxy) -> None:
    """`cut` resets the open connection and every new one; `restore` lets new ones through."""
    link = HTTPConnection("127.0.0.1", proxy.port, timeout=20)
    assert talk(link) == 200
    proxy.cut()
    for _ in range(2):
        with pytest.raises((OSError, http.client.HTTPException)):
            talk(link)
        link.close()
    proxy.restore()
    assert talk(link) == 200
    link.close()
    assert proxy.accepted == 2


def test_a_slow_and_lossy_proxy_takes_its_time(proxy: TcpProxy) -> None:
    """Latency and rate delay what passes, without changing a byte."""
    proxy.latency_s, proxy.bytes_per_s, proxy.loss = 0.05, 2_000_000, 1.0
    proxy.resend_s = 0.05
    link = HTTPConnection("127.0.0.1", proxy.port, timeout=20)
    began = time.monotonic()
    assert talk(link) == 200
    assert time.monotonic() - began >= 0.2
    link.close()


def test_free_ports_are_free(free_port: int) -> None:
    """The fixture's port can be listened on."""
    with socket.create_server(("127.0.0.1", free_port)) as listener:
        assert listener.getsockname()[1] == free_port
