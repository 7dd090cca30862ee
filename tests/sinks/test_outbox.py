"""The outbox against a real receiver that is down, slow, full, gone or plainly wrong."""

import asyncio
import datetime
import ssl
from dataclasses import replace
from email.utils import format_datetime
from pathlib import Path

import pytest
from standardwebhooks import Webhook

from orchestrator.core.errors import UsageError
from orchestrator.core.model import IncidentState, SinkSpec
from orchestrator.sinks import Outcome, Rack, SinkStatus
from orchestrator.sinks.webhook import WebhookSink
from orchestrator.store.deliveries import UNSET
from tests.lab.certificate import self_signed
from tests.sinks.alerts import SECRET, outgoing
from tests.sinks.conftest import OPS, Bench
from tests.sinks.receiver import Answer, Receiver


def _ids(receiver: Receiver) -> list[str]:
    return [request.headers["webhook-id"] for request in receiver.taken]


async def _status(bench: Bench) -> SinkStatus:
    (status,) = await bench.outbox.status()
    return status


async def test_alert_arrives_signed(bench: Bench) -> None:
    """An enqueued alert is posted at once, and its signature verifies by the public library."""
    receiver = await Receiver().start()
    bench.values["URL"] = receiver.url
    bench.start()
    await bench.enqueue(outgoing("i1"))
    (request,) = await receiver.until(1)
    verified = Webhook(SECRET).sign(
        request.headers["webhook-id"],
        datetime.datetime.fromtimestamp(int(request.headers["webhook-timestamp"]), tz=datetime.UTC),
        request.body.decode(),
    )
    assert request.headers["webhook-signature"] == verified
    assert request.headers["webhook-id"] == "i1-firing-1"
    assert request.headers["Content-Type"] == "application/json"
    assert request.document["alerts"][0]["annotations"]["thread"] == "Thread-3"
    await bench.until_empty()
    assert (await _status(bench)).error is None
    await receiver.stop()


async def test_two_secrets_give_two_signatures(bench: Bench) -> None:
    """While a secret is replaced, a receiver with either of them verifies."""
    other = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
    receiver = await Receiver().start()
    bench.values |= {"URL": receiver.url, "SECRET": f"{SECRET} {other}"}
    bench.start()
    await bench.enqueue(outgoing("i1"))
    (request,) = await receiver.until(1)
    signatures = request.headers["webhook-signature"].split()
    at = datetime.datetime.fromtimestamp(int(request.headers["webhook-timestamp"]), tz=datetime.UTC)
    ident, body = request.headers["webhook-id"], request.body.decode()
    assert signatures == [Webhook(one).sign(ident, at, body) for one in (SECRET, other)]
    await receiver.stop()


async def test_cloudevents_sink(bench: Bench) -> None:
    """`format: cloudevents` sends the other form, unsigned where no secret is named."""
    receiver = await Receiver().start()
    bench.values["URL"] = receiver.url
    bench.start(SinkSpec(name="ops", type="webhook", url_env="URL", format="cloudevents"))
    await bench.enqueue(outgoing("i1"))
    (request,) = await receiver.until(1)
    assert request.headers["Content-Type"] == "application/cloudevents+json"
    assert request.document["data"]["version"] == "4"
    assert "webhook-signature" not in request.headers
    await receiver.stop()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Answer(status=500), ": 500"),
        (Answer(status=404), ": 404"),
        (Answer(status=302, headers={"Location": "/elsewhere"}), "redirects are not followed"),
        (Answer(cut="before"), "closed the connection without an answer"),
        (Answer(status=429, headers={"Retry-After": "3"}), ": 429"),
        (Answer(status=503, headers={"Retry-After": "nonsense"}), ": 503"),
    ],
    ids=["500", "404", "redirect", "cut", "429", "bad-retry-after"],
)
async def test_refusals_are_sent_again_under_the_same_id(
    bench: Bench, answer: Answer, said: str
) -> None:
    """What a receiver refuses twice arrives the third time, with the same id and body."""
    receiver = await Receiver(answer, answer).start()
    bench.values["URL"] = receiver.url
    bench.start()
    await bench.enqueue(outgoing("i1"))
    await bench.until(lambda: len(receiver.requests) >= 2)
    await receiver.until(1)
    assert {request.path for request in receiver.requests} == {"/hook/s3cret"}
    assert {request.headers["webhook-id"] for request in receiver.requests} == {"i1-firing-1"}
    assert len({request.body for request in receiver.requests}) == 1
    await bench.until_empty()
    await receiver.stop()
    receiver.then = answer
    await receiver.start()
    await bench.enqueue(outgoing("i2"))
    async with asyncio.timeout(30):
        while (error := (await _status(bench)).error) is None:
            await asyncio.sleep(0.01)
    assert said in error
    assert "s3cret" not in error
    assert [one.error for one in await bench.store.deliveries.pending()] == [error]
    await receiver.stop()


async def test_answer_that_breaks_off_is_judged_by_its_status(bench: Bench) -> None:
    """A 500 whose body breaks off is a 500, sent again."""
    receiver = await Receiver(Answer(status=500, cut="within")).start()
    bench.values["URL"] = receiver.url
    bench.start()
    await bench.enqueue(outgoing("i1"))
    await receiver.until(1)
    assert len(receiver.requests) == 2
    await receiver.stop()


async def test_down_receiver_gets_all_in_order_once_it_is_back(bench: Bench) -> None:
    """While a receiver is down nothing is lost; back again, each incident's alerts are in order."""
    receiver = await Receiver().start()
    await receiver.stop()
    bench.values["URL"] = receiver.url
    bench.start()
    for number in range(5):
        await bench.enqueue(outgoing(f"i{number}"), outgoing(f"i{number}", nth=2))
        await bench.enqueue(outgoing(f"i{number}", status="resolved"))
    async with asyncio.timeout(30):
        while (await _status(bench)).error is None:
            await asyncio.sleep(0.01)
    status = await _status(bench)
    assert status.pending == 15
    assert "cannot connect" in (status.error or "")
    await asyncio.sleep(0.3)
    await receiver.start()
    await bench.until_empty()
    for number in range(5):
        mine = [ident for ident in _ids(receiver) if ident.startswith(f"i{number}-")]
        assert mine == [f"i{number}-firing-1", f"i{number}-firing-2", f"i{number}-resolved-1"]
    await receiver.stop()


async def test_refused_incident_does_not_hold_up_another(bench: Bench) -> None:
    """An incident that the receiver cannot swallow keeps back none but itself."""

    class Picky(Receiver):
        async def _answer(self, request):  # type: ignore[no-untyped-def]
            if b"i-bad" in await request.read():
                self.script.insert(0, Answer(status=400))
            return await super()._answer(request)

    receiver = await Picky().start()
    bench.values["URL"] = receiver.url
    bench.start()
    await bench.enqueue(outgoing("i-bad"), outgoing("i-good"))
    await receiver.until(1)
    assert _ids(receiver) == ["i-good-firing-1"]
    (left,) = await bench.store.deliveries.pending()
    assert left.alert.incident == "i-bad"
    await receiver.stop()


async def test_retry_after_is_honoured(bench: Bench) -> None:
    """After a 429 nothing is sent to the receiver until its Retry-After has passed."""
    receiver = await Receiver(Answer(status=429, headers={"Retry-After": "20"})).start()
    bench.values["URL"] = receiver.url
    bench.start()
    await bench.enqueue(outgoing("i1"))
    await bench.until(lambda: len(receiver.requests) == 1)
    await bench.enqueue(outgoing("i2"))
    await receiver.until(2)
    assert receiver.requests[1].at - receiver.requests[0].at >= 20 / 20.0
    assert len(receiver.requests) == 3
    await receiver.stop()


async def test_retry_after_outlives_the_daemon_that_was_told(bench: Bench) -> None:
    """It is kept with what waits: the next daemon holds to it as well."""
    receiver = await Receiver(Answer(status=429, headers={"Retry-After": "600"})).start()
    bench.values["URL"] = receiver.url
    bench.start()
    begun = bench.clock.now()
    await bench.enqueue(outgoing("i1"))
    async with asyncio.timeout(30.0):
        while not [one for one in await bench.store.deliveries.pending() if one.attempts]:
            await asyncio.sleep(0.01)
    await bench.stop()
    (left,) = await bench.store.deliveries.pending()
    assert left.next_at >= begun + 600
    await receiver.stop()


async def test_retry_after_as_a_date(bench: Bench) -> None:
    """Retry-After may be a date."""
    when = datetime.datetime.fromtimestamp(bench.clock.now() + 30, tz=datetime.UTC)
    answer = Answer(status=503, headers={"Retry-After": format_datetime(when, usegmt=True)})
    receiver = await Receiver(answer).start()
    bench.values["URL"] = receiver.url
    bench.start()
    await bench.enqueue(outgoing("i1"))
    await receiver.until(1)
    assert bench.clock.now() >= when.timestamp() - 1
    await receiver.stop()


async def test_410_disables_until_the_address_changes(bench: Bench) -> None:
    """A 410 ends all requests to that address and says so; a new one gets what nobody got."""
    gone = await Receiver(then=Answer(status=410)).start()
    bench.values["URL"] = gone.url
    bench.start()
    await bench.enqueue(outgoing("i1"))
    await bench.until_empty()
    await bench.enqueue(outgoing("i2"))
    await bench.until_empty()
    status = await _status(bench)
    assert (status.state, status.pending, status.disabled) == ("disabled", 0, 2)
    assert "410" in (status.error or "")
    assert len(gone.requests) == 1
    other = await Receiver().start()
    bench.values["URL"] = other.url
    bench.outbox.poke()
    await bench.enqueue(outgoing("i3"))
    await other.until(3)
    assert sorted(_ids(other)) == ["i1-firing-1", "i2-firing-1", "i3-firing-1"]
    status = await _status(bench)
    assert (status.state, status.disabled) == ("ready", 0)
    await gone.stop()
    await other.stop()


@pytest.mark.parametrize("restarted", [False, True])
async def test_disabled_sink_that_is_back_is_told_of_what_is_open(
    bench: Bench, restarted: bool
) -> None:
    """A test that is taken, or a new daemon, brings it back; what is over by then stays untold."""
    receiver = await Receiver(Answer(status=410)).start()
    bench.values["URL"] = receiver.url
    bench.start()
    await bench.enqueue(outgoing("open"))
    await bench.until_empty()
    await bench.enqueue(outgoing("open", nth=2), outgoing("over"))
    await bench.keep("over", IncidentState.RESOLVED)
    await bench.enqueue(outgoing("over", status="resolved"))
    await bench.until_empty()
    if restarted:
        await bench.stop()
        bench.start()
    else:
        assert (await bench.outbox.test("ops")).outcome is Outcome.TAKEN
    await receiver.until(3 - restarted)
    await bench.until_empty()
    assert _ids(receiver)[-2:] == ["open-firing-1", "open-firing-2"]
    assert len(receiver.taken) == 3 - restarted
    await receiver.stop()


@pytest.mark.parametrize("speed", [1.0])
async def test_disabled_sink_that_is_back_at_night_leaves_what_waits_for_the_morning(
    bench: Bench,
) -> None:
    """A daemon that starts in quiet hours tells what is urgent, and the rest at their end."""
    receiver = await Receiver(Answer(status=410)).start()
    bench.values["URL"] = receiver.url
    bench.start()
    morning = bench.clock.now() + 7200.0
    await bench.enqueue(replace(outgoing("waits"), not_before=morning), outgoing("urgent"))
    await bench.until_empty()
    await bench.stop()
    bench.start()
    await receiver.until(1)
    async with asyncio.timeout(30):
        while len(await bench.store.deliveries.pending()) > 1:
            await asyncio.sleep(0.02)
    (left,) = await bench.store.deliveries.pending()
    assert (left.alert.incident, left.next_at) == ("waits", morning)
    assert _ids(receiver) == ["urgent-firing-1"]
    await receiver.stop()


async def test_unset_sink_keeps_its_deliveries(bench: Bench) -> None:
    """Without an address deliveries wait; once there is one they go out, oldest first."""
    receiver = await Receiver().start()
    bench.start()
    await bench.enqueue(outgoing("i1"))
    status = await _status(bench)
    assert (status.state, status.missing, status.pending) == ("unset", ("URL",), 1)
    assert (await bench.outbox.test("ops")).text.startswith("URL has no value; export it")
    bench.values["URL"] = receiver.url
    bench.outbox.poke()
    await receiver.until(1)
    assert (await _status(bench)).state == "ready"
    await receiver.stop()


@pytest.mark.parametrize("restarted", [False, True])
async def test_what_was_over_before_there_was_an_address_is_not_sent(
    bench: Bench, restarted: bool
) -> None:
    """A first address brings what is open; by a daemon that starts with it as well."""
    receiver = await Receiver().start()
    bench.start()
    for ident in ("over", "seen", "open"):
        await bench.enqueue(outgoing(ident))
    await bench.keep("over", IncidentState.RESOLVED)
    await bench.keep("seen", IncidentState.ACKNOWLEDGED)
    await bench.keep("open", IncidentState.OPEN)
    await bench.enqueue(outgoing("over", status="resolved"), outgoing("seen", status="resolved"))
    async with asyncio.timeout(30):
        while {one.error for one in await bench.store.deliveries.pending()} != {UNSET}:
            await asyncio.sleep(0.01)
    if restarted:
        await bench.stop()
    bench.values["URL"] = receiver.url
    if restarted:
        bench.start()
    bench.outbox.poke()
    await bench.until_empty()
    assert _ids(receiver) == ["open-firing-1"]
    bench.outbox.poke()
    await bench.keep("open", IncidentState.RESOLVED)
    await bench.enqueue(outgoing("open", status="resolved"))
    await bench.until_empty()
    assert _ids(receiver) == ["open-firing-1", "open-resolved-1"]
    await receiver.stop()


@pytest.mark.parametrize("speed", [0.01])
async def test_what_an_old_address_refused_is_due_at_a_new_one(bench: Bench) -> None:
    """Nobody waits for the next try, or for the old receiver's Retry-After."""
    old = await Receiver(Answer(status=503, headers={"Retry-After": "3000"})).start()
    new = await Receiver().start()
    bench.values["URL"] = old.url
    bench.start()
    await bench.enqueue(outgoing("i1"))
    await bench.until(lambda: bench.outbox._lanes["ops"].refused is not None)
    bench.values["URL"] = new.url
    bench.outbox.poke()
    await bench.until_empty()
    assert _ids(new) == ["i1-firing-1"]
    await old.stop()
    await new.stop()


async def test_slow_receiver_is_given_up_and_tried_again(bench: Bench) -> None:
    """A receiver that does not answer in time is refused with the deadline in the reason."""
    receiver = await Receiver(Answer(wait_s=5)).start()
    sink = WebhookSink(OPS, bench.clock, deadline_s=0.3)
    from orchestrator.sinks.messages import test_message

    values = {"URL": receiver.url, "SECRET": SECRET}
    result = await sink.send(test_message(bench.clock), values.get)
    assert result.outcome is Outcome.REFUSED
    assert result.text.endswith("no answer within 0.3 s")
    assert (await sink.send(test_message(bench.clock), values.get)).outcome is Outcome.TAKEN
    await sink.close()
    await receiver.stop()


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"URL": "ftp://x/y"}, "value of URL is no http or https address"),
        ({"URL": "file:///etc/passwd"}, "no http or https address"),
        ({"URL": "not an address"}, "no http or https address"),
        ({"URL": "http://[::1"}, "no http or https address"),
        ({"URL": "http://127.0.0.1:1/x", "SECRET": "whsec_a"}, "no secret of the form whsec_"),
        ({"URL": "http://127.0.0.1:1/x", "SECRET": "abc"}, "no secret of the form whsec_"),
        ({"URL": "http://nowhere.invalid/s3cret"}, "its name is not known"),
    ],
)
async def test_bad_values_are_said_without_showing_them(
    bench: Bench, values: dict[str, str], said: str
) -> None:
    """A wrong address or secret is named by its variable, never by its value."""
    bench.values |= values
    bench.start()
    result = await bench.outbox.test("ops")
    assert said in result.text
    assert "s3cret" not in result.text


async def test_untrusted_certificate_is_refused(bench: Bench, tmp_path: Path) -> None:
    """A receiver whose certificate nobody vouches for gets no alert, and the reason is said."""
    certificate = self_signed(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    receiver = await Receiver().start(tls=context)
    bench.values["URL"] = receiver.url.replace("http:", "https:")
    bench.start()
    result = await bench.outbox.test("ops")
    assert result.outcome is Outcome.REFUSED
    assert "TLS certificate is not trusted" in result.text
    assert receiver.requests == []
    await receiver.stop()


async def test_https_to_a_plain_receiver(bench: Bench) -> None:
    """TLS towards a receiver that speaks none is refused by a sentence."""
    receiver = await Receiver().start()
    bench.values["URL"] = receiver.url.replace("http:", "https:")
    bench.start()
    assert "no TLS connection" in (await bench.outbox.test("ops")).text
    await receiver.stop()


async def test_unknown_sink_is_a_usage_error(bench: Bench) -> None:
    """`alert test` of a name that is not there names those that are."""
    bench.start()
    with pytest.raises(UsageError, match="no sink pager; the inventory has ops"):
        await bench.outbox.test("pager")


@pytest.mark.parametrize("speed", [1.0])
async def test_storm_becomes_a_digest(bench: Bench) -> None:
    """Thirty messages a minute go out one by one; the rest share one, and every alert arrives."""
    receiver = await Receiver().start()
    bench.values["URL"] = receiver.url
    bench.start()
    await bench.enqueue(*(outgoing(f"i{number:03d}") for number in range(80)))
    await bench.until_empty()
    singles = [one for one in receiver.taken if len(one.document["alerts"]) == 1]
    digests = [one for one in receiver.taken if len(one.document["alerts"]) > 1]
    assert len(singles) == 30
    assert len(digests) == 1
    alerts = [alert for one in receiver.taken for alert in one.document["alerts"]]
    assert len({alert["annotations"]["command"] for alert in alerts}) == len(alerts) == 80
    await receiver.stop()


@pytest.mark.parametrize("speed", [1.0])
async def test_digest_that_was_refused_is_the_same_one_again(bench: Bench) -> None:
    """A digest sent again has its id and its alerts, also by the next daemon."""
    receiver = await Receiver(*[Answer()] * 30, then=Answer(status=500)).start()
    bench.values["URL"] = receiver.url
    bench.start()
    await bench.enqueue(*(outgoing(f"i{number:03d}") for number in range(40)))
    await bench.until(lambda: len(receiver.requests) >= 31)
    await bench.stop()
    receiver.then = Answer()
    bench.start()
    await bench.until_empty()
    digests = [one for one in receiver.requests if len(one.document["alerts"]) == 10]
    assert len(digests) >= 2
    assert len({one.headers["webhook-id"] for one in digests}) == 1
    assert len({one.body for one in digests}) == 1
    # Of an alert that was sent by itself, and refused, the receiver may know the id.
    assert digests[0].headers["webhook-id"] not in {
        f"i{number:03d}-firing-1" for number in range(40)
    }
    await receiver.stop()


async def test_next_daemon_sends_what_was_left(bench: Bench) -> None:
    """What was in flight when a daemon ended is sent by the next one, under the same id."""
    receiver = await Receiver(Answer(wait_s=5)).start()
    bench.values["URL"] = receiver.url
    bench.start()
    await bench.enqueue(outgoing("i1"))
    await bench.until(lambda: len(receiver.requests) == 1)
    await bench.stop()
    bench.start()
    await bench.until(lambda: len(receiver.requests) == 2)
    await bench.until_empty()
    assert len({request.headers["webhook-id"] for request in receiver.requests}) == 1
    await receiver.stop()


async def test_one_sink_does_not_hold_up_another(bench: Bench) -> None:
    """A receiver that is down keeps its own deliveries back and no others."""
    receiver = await Receiver().start()
    bench.values |= {"URL": "http://127.0.0.1:1/", "OTHER": receiver.url}
    bench.start(OPS, SinkSpec(name="phone", type="webhook", url_env="OTHER"))
    await bench.enqueue(outgoing("i1", "ops", "phone"))
    await receiver.until(1)
    async with asyncio.timeout(30):
        while [one.sink for one in await bench.store.deliveries.pending()] != ["ops"]:
            await asyncio.sleep(0.01)
    await receiver.stop()


async def test_removed_sink_keeps_what_waits_and_gets_it_once_it_is_back(bench: Bench) -> None:
    """Alerts to a sink that left the inventory wait, are shown, and arrive when it returns."""
    receiver = await Receiver().start()
    rack = Rack(bench.clock)
    outbox = bench.start()
    await bench.enqueue(outgoing("i1"))
    outbox.follow(())
    (status,) = await outbox.status()
    assert (status.name, status.state, status.pending) == ("ops", "removed", 1)
    assert "put it back" in (status.error or "")
    bench.values["URL"] = receiver.url
    outbox.follow(rack.sinks((OPS,)))
    await receiver.until(1)
    await bench.until_empty()
    assert [one.state for one in await outbox.status()] == ["ready"]
    await receiver.stop()


async def test_edited_sink_takes_over_from_the_old_one(bench: Bench) -> None:
    """A sink with a new address gets what comes next; what was under way is not sent twice."""
    slow = await Receiver(Answer(wait_s=0.5)).start()
    other = await Receiver().start()
    bench.values |= {"URL": slow.url, "OTHER": other.url}
    outbox = bench.start()
    await bench.enqueue(outgoing("i1"))
    await bench.until(lambda: len(slow.requests) == 1)
    moved = SinkSpec(name="ops", type="webhook", url_env="OTHER", secret_env="SECRET")
    outbox.follow(Rack(bench.clock).sinks((moved,)))
    await bench.enqueue(outgoing("i2"))
    await other.until(1)
    await bench.until_empty()
    assert (_ids(slow), _ids(other)) == (["i1-firing-1"], ["i2-firing-1"])
    await slow.stop()
    await other.stop()


async def test_same_sinks_go_on_undisturbed(bench: Bench) -> None:
    """Following an inventory that names the same sinks keeps what is known of them."""
    receiver = await Receiver(then=Answer(status=500)).start()
    bench.values["URL"] = receiver.url
    rack = Rack(bench.clock)
    outbox = bench.start()
    outbox.follow(rack.sinks((OPS,)))
    await bench.enqueue(outgoing("i1"))
    await bench.until(lambda: len(receiver.requests) >= 1)
    async with asyncio.timeout(30):
        while (await _status(bench)).error is None:
            await asyncio.sleep(0.01)
    outbox.follow(rack.sinks((OPS,)))
    assert "500" in ((await _status(bench)).error or "")
    await receiver.stop()


@pytest.mark.parametrize("speed", [2000.0])
async def test_alert_of_quiet_hours_arrives_at_their_end(bench: Bench) -> None:
    """Kept back for two hours, longer than any retry, it is sent then and not before."""
    receiver = await Receiver().start()
    bench.values["URL"] = receiver.url
    bench.start()
    until = bench.clock.now() + 7200.0
    await bench.enqueue(replace(outgoing("i1"), not_before=until), outgoing("i2"))
    await receiver.until(2)
    assert _ids(receiver) == ["i2-firing-1", "i1-firing-1"]
    assert bench.clock.now() >= until
    await receiver.stop()


@pytest.mark.parametrize("speed", [1.0])
async def test_digest_leaves_what_quiet_hours_keep_back(bench: Bench) -> None:
    """A storm at night takes nothing along that is to wait for the morning."""
    receiver = await Receiver().start()
    bench.values["URL"] = receiver.url
    bench.start()
    morning = bench.clock.now() + 7200.0
    kept_back = replace(outgoing("i-quiet"), not_before=morning)
    await bench.enqueue(kept_back, *(outgoing(f"i{number:03d}") for number in range(40)))
    async with asyncio.timeout(30):
        while len(await bench.store.deliveries.pending()) > 1:
            await asyncio.sleep(0.02)
    (left,) = await bench.store.deliveries.pending()
    assert (left.alert.incident, left.next_at) == ("i-quiet", morning)
    await receiver.stop()


@pytest.mark.parametrize("speed", [1.0])
async def test_what_becomes_urgent_at_night_is_not_held_up_by_what_waits(bench: Bench) -> None:
    """A warning that waits for the morning goes before its incident's critical alert, at once."""
    receiver = await Receiver().start()
    bench.values["URL"] = receiver.url
    bench.start()
    morning = bench.clock.now() + 7200.0
    await bench.enqueue(replace(outgoing("i1"), not_before=morning))
    await bench.enqueue(outgoing("i1", nth=2))
    await receiver.until(2)
    assert _ids(receiver) == ["i1-firing-1", "i1-firing-2"]
    await receiver.stop()
