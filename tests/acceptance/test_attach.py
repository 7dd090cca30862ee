"""`orch attach` lands in the run's own tmux session, and leaving it leaves the run alone."""

from collections.abc import Callable

from tests.acceptance.conftest import Orch
from tests.conftest import TmuxCall

Story = Callable[..., Orch]


def test_attach_shows_the_run_and_detaching_leaves_it_alone(story: Story, tmux: TmuxCall) -> None:
    """The live session is shown through every hop; after the detach keys the run still runs."""
    orch = story("python3 -m played steps --count 0")
    run = orch.json("run", "--detach")["run"]
    orch.until(lambda: orch.json("show", run)["step"])
    words = " ".join(orch.argv("attach", run))
    tmux(
        *("-L", "viewer", "new-session", "-d", "-x", "120", "-y", "40", "-s", "v"),
        *("-c", str(orch.folder), f"env -u TMUX {words}; echo came back; sleep 60"),
    )

    def screen() -> str:
        return tmux("-L", "viewer", "capture-pane", "-p", "-t", "v").stdout

    orch.until(lambda: "loss" in screen() and "[dflash]" in screen())
    tmux("-L", "viewer", "send-keys", "-t", "v", "C-b", "d")
    orch.until(lambda: "came back" in screen())
    tmux("-L", "viewer", "kill-session", "-t", "v", check=False)
    before = orch.json("show", run)
    assert before["state"] == "running"
    orch.until(lambda: orch.json("show", run)["step"] > before["step"])
    orch("stop", run)
