"""What tmux prints: its version, its sessions, a pane."""

import pytest

from orchestrator.core.parse.tmux import Session, parse_capture, parse_sessions, parse_version


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("tmux 3.3a\n", (3, 3)),
        ("tmux 2.9a", (2, 9)),
        ("tmux next-3.6", (3, 6)),
        ("tmux master", None),
        ("bash: tmux: command not found", None),
    ],
)
def test_a_version_is_read(text: str, version: tuple[int, int] | None):
    """Letters behind the number are fixes; a master has none."""
    assert parse_version(text) == version


def test_sessions_are_read_from_their_panes():
    """A session is dead once all its panes are; marks that are not there are None."""
    text = (
        "dflash:1:4711:1760000000:dflash-3:k3j9x2ma:/srv/a:b/attempt-1\n"
        "mine:0:4800:1760000001:::\n"
        "mine:1:4801:1760000001:::\n"
        "no server running on /tmp/tmux-0/default\n"
    )
    assert parse_sessions(text) == (
        Session(
            name="dflash",
            dead=True,
            pane_pids=(4711,),
            created=1760000000,
            run="dflash-3",
            uid="k3j9x2ma",
            attempt_dir="/srv/a:b/attempt-1",
        ),
        Session(
            name="mine", dead=False, pane_pids=(4800, 4801), created=1760000001, run=None, uid=None
        ),
    )


def test_a_captured_pane_ends_at_its_last_written_row():
    """tmux fills the screen with empty rows, and rows with blanks."""
    assert parse_capture("step 1   \n\nstep 2\n\n\n\n") == ("step 1", "", "step 2")
    assert parse_capture("\n\n\n") == ()
