"""What the dashboard makes of a job's past and a run's surroundings."""

from tui.history import earlier_releases, environment


def test_gpus_that_are_alike_are_counted() -> None:
    """Eight names side by side were cut off at the window's edge."""
    gpus = ["NVIDIA H100"] * 7 + ["NVIDIA L4"]
    look = {"attempt": 1, "moment": "launch", "at": 0.0, "fingerprint": {"gpus": gpus}}
    told = environment({"looks": [{**look, "configuration": {}}]})
    assert [line.text for line in told[0].lines] == ["gpus: 7 x NVIDIA H100, NVIDIA L4"]


def test_a_rollback_offers_what_is_not_current() -> None:
    """The newest entry is what the target has: going back to it would do nothing."""
    entries = [{"digest": digest} for digest in ("b", "a", "b", "c")]
    assert earlier_releases(entries) == ["a", "c"]
    assert earlier_releases([{"digest": "b"}]) == []
