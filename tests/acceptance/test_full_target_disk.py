"""A disk over there that fills up: the run goes on, and what is missing of its output is said."""

from collections.abc import Iterator

import pytest

from tests.acceptance.conftest import MakeOrch, lab_job
from tests.lab.lab import Lab
from tests.lab.receiver import Receiver

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("lab-link")]
FLOOD = "head -c 3000000 /dev/zero | tr '\\\\0' x"


@pytest.fixture
def small_disk(lab: Lab) -> Iterator[None]:
    """The job's folder in container 200 is a disk of 1.5 MB."""
    mounting = "mkdir -p /srv/orch/dflash && mount -t tmpfs -o size=1500k tmpfs /srv/orch/dflash"
    lab["200"].run(["sh", "-c", mounting])
    yield
    lab["200"].run(["umount", "-l", "/srv/orch/dflash"])


def test_what_a_full_disk_lost_is_said(
    lab: Lab, make_orch: MakeOrch, small_disk: None, receiver: Receiver
) -> None:
    """Half of the output has no place there: `run`, `show` and an alert say how much, and why."""
    orch = make_orch(lab_job(lab, f'sh -c "{FLOOD}"'))
    ran = orch("run", "--force")
    shown = orch("show", "@1").stdout
    metrics = orch.json("show", "@1")["metrics"]
    kept = len(orch("logs", "@1", "--raw").stdout)
    assert metrics["output_lost_bytes"] + kept == 3_000_000
    for text in (ran.stdout, shown):
        assert "MiB are lost: the disk there was full" in text
    (incident,) = orch.json("incidents", "--all")["incidents"]
    assert (incident["signature"], incident["severity"]) == ("output_lost", "warning")
    told = [one for sent in receiver.wait_for(2) for one in sent.json["alerts"]]
    assert [(one["labels"]["alertname"], one["status"]) for one in told] == [
        ("output_lost", "firing"),
        ("output_lost", "resolved"),
    ]
    assert "bytes of the output are lost" in told[0]["annotations"]["evidence"]
