"""What tmux prints of its sessions."""

from orchestrator.core.parse.tmux import Session, parse_sessions


def test_sessions_are_read_from_their_panes() -> None:
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
