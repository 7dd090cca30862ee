"""A record on disk is the old one, the new one or none, whenever it is read."""

from pathlib import Path

from orchestrator.probe.files import read_record, write_record


def test_a_record_is_replaced_in_one_step(tmp_path: Path) -> None:
    """Whoever reads the old one goes on reading it, and nothing else is left in the folder."""
    path = tmp_path / "exit.json"
    write_record(str(path), {"code": 1, "said": "x" * 10_000})
    with path.open("rb") as old:
        write_record(str(path), {"code": 2})
        assert old.read().startswith(b'{"code": 1,')
    assert read_record(str(path)) == {"code": 2}
    assert [*tmp_path.iterdir()] == [path]
