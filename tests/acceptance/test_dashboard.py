"""The dashboard as a person uses it: in a real tmux, typed at, before a real daemon and runs."""

from collections.abc import Callable, Iterator

import pytest

from tests.acceptance.conftest import Orch
from tests.conftest import TmuxCall

Story = Callable[..., Orch]


class Person:
    """Somebody in front of a terminal of 110x32."""

    def __init__(self, tmux: TmuxCall, orch: Orch) -> None:
        self._tmux, self._orch = tmux, orch
        words = " ".join(orch.argv("tui"))
        tmux(
            *("-L", "viewer", "new-session", "-d", "-x", "110", "-y", "32", "-s", "v"),
            *("-c", str(orch.folder), f"env -u TMUX {words}; echo left with $?; sleep 60"),
        )

    def screen(self) -> str:
        """What is on the terminal."""
        return self._tmux("-L", "viewer", "capture-pane", "-p", "-t", "v").stdout

    def sees(self, *words: str) -> str:
        """Wait until all of these are on the screen."""

        def there() -> bool:
            shown = self.screen()
            return all(word in shown for word in words)

        try:
            self._orch.until(there)
        except TimeoutError as error:
            raise AssertionError(f"{words} never came:\n{self.screen()}") from error
        return self.screen()

    def sees_a_prompt(self) -> None:
        """Wait until a shell asks."""
        self._orch.until(lambda: self.screen().rstrip().endswith(("#", "$")))

    def presses(self, *keys: str) -> None:
        """Send keys by tmux's names."""
        self._tmux("-L", "viewer", "send-keys", "-t", "v", *keys)

    def types(self, text: str) -> None:
        """Send text as it is."""
        self._tmux("-L", "viewer", "send-keys", "-t", "v", "-l", text)


@pytest.fixture
def person(tmux: TmuxCall) -> Iterator[Callable[[Orch], Person]]:
    """`person(orch)` opens that daemon's dashboard."""
    yield lambda orch: Person(tmux, orch)
    tmux("-L", "viewer", "kill-session", "-t", "v", check=False)


def test_a_person_launches_reads_attaches_and_stops(
    story: Story, person: Callable[[Orch], Person]
) -> None:
    """With keys alone: start the daemon, launch, search the log, a shell, attach, stop, leave."""
    orch = story("python3 -m played steps --count 0")
    me = person(orch)
    me.sees("No daemon answers", "S starts")
    me.presses("S")
    me.sees("No runs yet.")
    me.presses("r")
    me.sees("Launch dflash?")
    me.types("a lock around it")
    me.presses("Enter")
    me.sees("dflash-1", "running", "a lock around it", "loss")

    me.presses("/")
    me.types("step 2[^0-9]")
    me.presses("Enter")
    me.sees("paused", "step 2", "match 1 of 1")
    me.types("n")
    me.sees("no match below")
    me.presses("Escape")
    me.presses("End")
    me.sees("following")

    me.types("x")
    me.sees_a_prompt()
    me.types("echo here $((40 + 2))")
    me.presses("Enter")
    me.sees("here 42")
    me.types("exit")
    me.presses("Enter")
    me.sees("dflash-1", "following")

    me.types("a")
    me.sees("[dflash]")
    me.presses("C-b", "d")
    me.sees("dflash-1", "following")

    me.types("s")
    me.sees("Stop dflash-1?")
    me.types("y")
    me.sees("ended")
    me.presses("Enter")
    me.sees("stopped")
    assert orch.json("show", "@1")["state"] == "stopped"
    me.types("q")
    me.sees("left with 0")


def test_a_person_goes_from_the_crash_to_its_place_in_the_log(
    story: Story, person: Callable[[Orch], Person]
) -> None:
    """The badge, the incident with what to do, the place in the log, and an acknowledgement."""
    orch = story("python3 -m played fx_race_crash --lines 300 --after 40")
    orch("run", check=100)
    me = person(orch)
    me.sees("dflash-1", "failed", "1 open incident")
    me.types("i")
    me.sees("what died", "fx_trace_race", "what to do")
    me.types("f")
    me.sees("paused", "Traceback (most recent call last)")
    me.types("A")
    me.sees("acknowledged")
    assert [one["state"] for one in orch.json("incidents")["incidents"]] == ["acknowledged"]
    me.types("q")
    me.sees("left with 0")
