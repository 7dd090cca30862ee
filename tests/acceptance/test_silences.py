"""What a person does not want to hear: silences and acknowledgements, from command to receiver."""

from collections.abc import Callable
from pathlib import Path

from tests.acceptance.conftest import MakeOrch, Orch, local_job
from tests.acceptance.test_crash_story import firing
from tests.lab.receiver import Receiver

Story = Callable[..., Orch]


def test_silenced_alert_is_kept_back_and_the_next_is_heard(
    make_orch: MakeOrch, short_folder: Path, receiver: Receiver
) -> None:
    """A silence by label keeps the first crash back; once expired, the next crash arrives."""
    orch = make_orch(local_job(short_folder, "python3 -m played sigkill_self"))
    refused = orch("silence", "add", check=2)
    assert "every alert" in refused.stderr
    unknown = orch("silence", "add", "jobb=dflash", check=2)
    assert "no alert has a label jobb; did you mean job?" in unknown.stderr
    for slip, meant in (("job=dflsh", "dflash"), ("alertname=cuda_omm", "cuda_oom")):
        said = orch("silence", "add", slip, "--for", "1h", check=2).stderr
        assert f"did you mean {meant}?" in said
    made = orch.json("silence", "add", "job=dflash", "--for", "2h", "-m", "I know")
    assert (made["match"], made["expired"]) == ({"job": "dflash"}, False)
    orch.json("silence", "add", "alertname=hang", "--for", "30d")
    listed = orch("silence", "ls").stdout
    assert "2h 00m more" in listed
    assert "job=dflash" in listed
    assert "I know" in listed

    orch("run", check=100)
    orch.until(lambda: orch.json("incidents")["incidents"])
    assert orch.json("silence", "expire", made["id"][:6])["expired"] is True
    assert [one["match"] for one in orch.json("silence", "ls")["silences"]] == [
        {"alertname": "hang"}
    ]
    shown = {one["id"]: one["expired"] for one in orch.json("silence", "ls", "-a")["silences"]}
    assert shown[made["id"]] is True
    orch("run", "--no-deploy", check=100)
    heard = receiver.wait_for(where=firing)
    assert [one.json["alerts"][0]["labels"]["run"] for one in heard] == ["dflash-2"]
    assert orch.json("silence", "expire", made["id"])["expired"] is True
    assert "no silence's id" in orch("silence", "expire", "nosuch", check=2).stderr


def test_silence_without_an_end_is_refused(make_orch: MakeOrch, short_folder: Path) -> None:
    """Neither for good nor for more than thirty days; the inventory is where what lasts stands."""
    orch = make_orch(local_job(short_folder, "python3 -m played steps --count 1"))
    endless = orch("silence", "add", "job=dflash", check=2).stderr
    assert "A silence needs its end" in endless
    assert "`alerts.silences` of the inventory" in endless
    long = orch("silence", "add", "job=dflash", "--for", "31d", check=2).stderr
    assert "30 days at most" in long
    assert orch.json("silence", "ls", "-a")["silences"] == []


def test_silence_for_a_short_while_ends_by_itself(make_orch: MakeOrch, short_folder: Path) -> None:
    """A silence whose time is over is listed only with -a."""
    orch = make_orch(local_job(short_folder, "python3 -m played steps --count 1"))
    orch.json("silence", "add", "job=dflash", "--for", "100ms")
    orch.until(lambda: not orch.json("silence", "ls")["silences"])
    assert [one["expired"] for one in orch.json("silence", "ls", "-a")["silences"]] == [True]


def test_acknowledging_tells_whoever_was_called(
    make_orch: MakeOrch, short_folder: Path, receiver: Receiver
) -> None:
    """`ack` by run acknowledges its incident and tells the receiver; again is as good."""
    orch = make_orch(local_job(short_folder, "python3 -m played sigkill_self"))
    orch("run", check=100)
    receiver.wait_for(where=firing)
    assert "acknowledged" in orch("ack", "@1").stdout
    told = receiver.wait_for(where=lambda one: one.json["status"] == "resolved")[0]
    assert "Acknowledged" in told.json["alerts"][0]["annotations"]["description"]
    assert orch.json("ack", "dflash-1")["state"] == "acknowledged"
    assert orch.json("incidents")["incidents"][0]["state"] == "acknowledged"
