"""Exit records of the relay and of the shell fallback."""

import pytest

from orchestrator.core.model import ExitRecord
from orchestrator.core.parse.exit_record import exit_record, parse_exit_record


def test_a_relays_record_is_read():
    """Blank padding behind it, and keys that are not known here, do not matter."""
    text = (
        '{"code": null, "signal": 9, "started_at": 1.5, "ended_at": 2.5, "boot_id": "b", '
        '"log_bytes": 12, "dropped_bytes": 3}\n\n\n\n'
    )
    assert parse_exit_record(text) == ExitRecord(
        code=None, signal=9, started_at=1.5, ended_at=2.5, boot_id="b", log_bytes=12
    )


def test_the_shells_record_keeps_what_it_cannot_tell():
    """Above 128 neither code nor signal is known, only what `$?` was."""
    record = parse_exit_record(
        b'{"code": null, "signal": null, "raw": 137, "started_at": 1, "ended_at": 2}'
    )
    assert (record.code, record.signal, record.raw) == (None, None, 137)
    assert (record.boot_id, record.log_bytes) == ("", 0)


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"code": 0}', '{"code": 0, "started_at": null, "ended_at": 1}', '{"code": 0, "st'],
)
def test_what_is_no_record_is_refused(text: str):
    """A torn or foreign file is never taken for an end."""
    with pytest.raises(ValueError, match=r".+"):
        parse_exit_record(text)


def test_the_record_of_a_frame_is_read():
    """The same from a mapping, as an `exit` frame carries it."""
    record = exit_record({"code": 3, "signal": None, "started_at": 1, "ended_at": 2})
    assert (record.code, record.signal) == (3, None)
