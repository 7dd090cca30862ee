"""`orch doctor` on the lab: everything between here and the GPUs, each fault with its remedy."""

from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import MakeOrch, Orch, lab_job, local_job
from tests.lab.lab import Lab

pytestmark = [
    pytest.mark.lab,
    pytest.mark.xdist_group("lab"),
    pytest.mark.timeout(240),  # many commands, each a process, on a machine that may be busy
]


def by_name(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The checks by their names."""
    return {check["name"]: check for check in found["checks"]}


def test_a_good_target_is_good_to_the_last_check(lab: Lab, make_orch: MakeOrch) -> None:
    """Way in, tmux, clock, disk, interpreter, packages and GPUs are named, and nothing refuses."""
    lab.gpus.set_idle(2)
    orch = make_orch(
        lab_job(
            lab, "python3 -m played steps --count 1", "    preflight: {packages: {pip: '>=1'}}\n"
        )
    )
    checks = by_name(orch.json("doctor", check=None))
    assert checks["target ct200"]["text"].startswith("ct200 answers by Python 3.")
    for name in (
        "tmux on ct200",
        "clock on ct200",
        "disk on ct200 for dflash",
        "python on ct200 for dflash",
    ):
        assert checks[name]["ok"], checks[name]
    assert checks["gpus on ct200"]["text"].startswith("2 GPUs (Lab Stand-in H200)")
    assert "target pve1-itself" in checks


def test_each_fault_has_its_remedy(lab: Lab, make_orch: MakeOrch, free_port: int) -> None:
    """No host at an address, no interpreter, a package that is not there, too little disk."""
    more = "    preflight: {packages: {no-such-package: '>=1'}, min_free_disk: 900000GiB}\n"
    inventory = lab_job(lab, "python3 -m played steps --count 1", more)
    inventory = inventory.replace(
        "targets:\n",
        f"  gone: {{hostname: 127.0.0.1, port: {free_port}, known_hosts: {lab.host.known_hosts}}}\n"
        "targets:\n  ct9: {host: gone}\n",
        1,
    )
    orch = make_orch(inventory)
    checks = by_name(orch.json("doctor", check=3))
    failed = {name: check for name, check in checks.items() if not check["ok"]}
    assert all(check["remedy"] for check in failed.values()), failed
    assert {
        "target ct9",
        "disk on ct200 for dflash",
        "packages on ct200 for dflash",
    } <= failed.keys()


def test_a_driver_that_does_not_fit_is_told(lab: Lab, make_orch: MakeOrch) -> None:
    """nvidia-smi's own complaint is shown, with what helps."""
    lab.gpus.fail("Failed to initialize NVML: Driver/library version mismatch")
    orch = make_orch(lab.inventory_yaml())
    check = by_name(orch.json("doctor", check=None))["gpus on ct200"]
    assert "mismatch" in check["text"]
    assert "reboot" in check["remedy"]


def test_settings_of_ssh_that_are_not_obeyed(
    lab: Lab, bare_orch: Orch, make_orch: MakeOrch
) -> None:
    """A StrictHostKeyChecking of ~/.ssh/config is named for the host that it is meant for."""
    config = Path(bare_orch.env["PATH"].split(":")[0]) / "config"
    config.write_text(config.read_text() + "  StrictHostKeyChecking no\n")
    orch = make_orch(lab.inventory_yaml())
    orch.env.update(PATH=bare_orch.env["PATH"])
    check = by_name(orch.json("doctor", check=None))["ssh settings of pve1"]
    assert (check["ok"], check["critical"]) == (False, False)
    assert "stricthostkeychecking" in check["text"]


def test_a_weak_webhook_secret_is_told_before_an_alert_fails_by_it(
    make_orch: MakeOrch, short_folder: Path
) -> None:
    """The sink has all its values, and one of them cannot sign anything."""
    orch = make_orch(local_job(short_folder, "sleep 1"))
    orch.env["ORCH_WEBHOOK_SECRET"] = "whsec_short"
    sink = by_name(orch.json("doctor", check=None))["sink ops"]
    assert not sink["ok"]
    assert "no secret of the form whsec_<base64> of 16 bytes" in sink["text"]
    assert "base64" in sink["remedy"]
