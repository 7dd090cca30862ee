"""Replays of named situations, an app that plays one while its clock stands still, one served."""

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.worker import Worker

from tests.tui import situations
from tui.app import Dashboard
from tui.options import Options
from tui.replay import ReplaySource

Made = Callable[..., Dashboard]
DEADLINE_S = 30.0
STILL_ROUNDS = 4


@pytest.fixture(scope="session")
def replays(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the replay file of every situation."""
    folder = tmp_path_factory.mktemp("replays")
    for name in situations.SITUATIONS:
        situations.write(name, folder)
    return folder


@pytest.fixture
def dashboard(replays: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    """`dashboard("healthy")`: the app with that situation, `at` seconds from its beginning."""
    for name in ("NO_COLOR", "TEXTUAL_THEME", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()

    def make(situation: str, *, at: float = 0.0, read_only: bool = False) -> Dashboard:
        source = ReplaySource(replays / f"{situation}.jsonl", at=at)
        return Dashboard(source, Options(name="/home/me/inventory.yaml", read_only=read_only))

    return make


async def until(pilot: Pilot[None], condition: Callable[[], bool], what: str) -> None:
    """Wait until it holds; fail with `what` after a generous while."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"{what}: never came\n{screen_text(pilot)}"
        await pilot.pause()
        await asyncio.sleep(0.01)


async def settle(pilot: Pilot[None]) -> None:
    """Wait until nothing changes any more: not the screen, not the stack, and nothing is asked for.

    Each round lets every widget work through what it was sent; one round alone would do on a
    machine that is not busy with something else.
    """
    await until(pilot, lambda: pilot.app.sight.fleet is not None, "the first snapshot")  # type: ignore[attr-defined]  # a Dashboard
    deadline = time.monotonic() + DEADLINE_S
    before, rounds = None, 0
    while rounds < STILL_ROUNDS:
        await pilot.pause()
        seen = ([id(screen) for screen in pilot.app.screen_stack], screen_text(pilot))
        fetching = any(map(_is_fetching, pilot.app.workers))
        rounds = 0 if fetching or seen != before else rounds + 1
        before = seen
        assert time.monotonic() < deadline, f"it never stands still:\n{screen_text(pilot)}"


def _is_fetching(worker: Worker[object]) -> bool:
    """Whether a worker is under way that waits for no person."""
    return worker.group != "acts" and not worker.is_finished


async def press(pilot: Pilot[None], *keys: str) -> None:
    """Press keys, and wait after each until all that it asked for is there."""
    for key in keys:
        await pilot.press(key)
        await settle(pilot)


def screen_text(pilot: Pilot[None]) -> str:
    """The screen as lines of text."""
    strips = pilot.app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in strips)


@pytest.fixture
def address(replays: Path, free_port: int) -> Iterator[str]:
    """The printed address of a dashboard that is served."""
    argv = [sys.executable, "-m", "tui", "--replay", str(replays / "none.jsonl"), "--web"]
    with subprocess.Popen([*argv, str(free_port)], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        printed = server.stdout.readline().strip()
        deadline = time.monotonic() + 30
        with socket.socket() as call:
            # It is printed a moment before the port is open.
            while call.connect_ex(("127.0.0.1", free_port)):
                assert time.monotonic() < deadline, "nobody listens"
                time.sleep(0.05)
        yield printed
        server.terminate()
