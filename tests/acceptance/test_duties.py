"""What a daemon does unasked: it beats while it sees, follows the inventory's sinks, reminds."""

from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from tests.acceptance.conftest import MakeOrch, local_job
from tests.acceptance.test_crash_story import firing
from tests.lab.receiver import Receiver


def test_heartbeat_is_sent_while_everything_is_seen(
    make_orch: MakeOrch, short_folder: Path
) -> None:
    """With `heartbeat_url_env` a GET arrives as soon as the daemon is up."""
    beats: list[str] = []

    class Heard(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            beats.append(self.path)
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing: the test reads `beats`."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Heard)
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    text = local_job(short_folder, "python3 -m played steps --count 1")
    orch = make_orch(text + "  heartbeat_url_env: ORCH_BEAT\n")
    orch.env["ORCH_BEAT"] = f"http://127.0.0.1:{server.server_address[1]}/beat"
    orch("daemon", "start")
    orch.until(lambda: beats)
    assert beats == ["/beat"]
    server.shutdown()
    server.server_close()


def test_sink_that_left_the_inventory_is_shown_and_served_again(
    make_orch: MakeOrch, short_folder: Path, receiver: Receiver
) -> None:
    """An alert waits for a removed sink, `daemon status` says so, and its return brings it."""
    orch = make_orch(local_job(short_folder, "python3 -m played sigkill_self"))
    file = orch.folder / "inventory.yaml"
    whole = file.read_text()
    url = orch.env.pop("ORCH_WEBHOOK_URL")
    orch("run", check=100)
    file.write_text(whole[: whole.index("alerts:")])
    shown = orch.until(
        lambda: [one for one in orch.json("daemon", "status")["sinks"] if one["state"] == "removed"]
    )
    assert (shown[0]["name"], shown[0]["pending"]) == ("ops", 1)
    file.write_text(whole)
    orch.env["ORCH_WEBHOOK_URL"] = url
    orch("status")
    receiver.wait_for(where=firing)


def test_acknowledgement_of_a_live_run_is_answered_once_it_is_known(
    make_orch: MakeOrch, short_folder: Path, receiver: Receiver
) -> None:
    """`ack` of a run that still runs says `acknowledged`, not what it was before."""
    orch = make_orch(local_job(short_folder, "python3 -m played fx_race_hang --lines 100"))
    run = orch.json("run", "--detach")["run"]
    receiver.wait_for(where=firing, timeout_s=40)
    assert orch.json("ack", run)["state"] == "acknowledged"
    orch("stop", run)


def test_reminder_comes_until_somebody_cares(
    make_orch: MakeOrch, short_folder: Path, receiver: Receiver
) -> None:
    """With `remind` an open incident is told again; after `ack` it is not."""
    text = local_job(short_folder, "python3 -m played sigkill_self")
    orch = make_orch(text + "  remind: 2s\n")
    orch("run", check=100)
    told = receiver.wait_for(2, where=firing, timeout_s=40)
    assert "Still open" in told[1].json["alerts"][0]["annotations"]["description"]
    orch("ack", "@1")
    receiver.wait_for(where=lambda one: one.json["status"] == "resolved")
    assert not firing(receiver.received[-1])


def test_status_and_show_tell_the_same_of_a_link_that_is_idle(
    make_orch: MakeOrch, short_folder: Path
) -> None:
    """A sign of life is no change of the board, and `status` and `top` tell of it all the same."""
    orch = make_orch(local_job(short_folder, "python3 -m played steps --count 1"))
    orch("run")

    def heard(*words: str) -> float:
        said = orch.json(*words)
        return float(said["seen_at"] if words[0] == "show" else said["targets"][0]["seen_at"])

    def heard_since(moment: float) -> bool:
        return heard("show", "@1") > moment

    for reading in ("status", "top"):
        orch.until(partial(heard_since, heard("show", "@1")))
        before = heard("show", "@1")
        told = heard(reading)
        assert before <= told <= heard("show", "@1"), reading
