"""A host that is down since before the daemon began: the first thing that a newcomer may meet."""

from pathlib import Path

from tests.acceptance.conftest import MakeOrch, local_job


def test_a_host_that_was_never_reached_is_told_with_its_reason(
    make_orch: MakeOrch, short_folder: Path
) -> None:
    """`orch status` says why within seconds, once an attempt was made, and so does `orch top`."""
    here = "{transport: local}"
    orch = make_orch(
        local_job(short_folder, "sleep 0").replace(here, "{hostname: 127.0.0.1, port: 1}")
    )

    def told() -> bool:
        return bool(orch.json("status")["targets"][0]["error"])

    orch.until(told)
    shown = orch("status").stdout
    assert "cannot be reached: nothing listens there" in shown
    assert "not looked at yet" not in shown
    assert "cannot be reached: nothing listens there" in orch("top").stdout
