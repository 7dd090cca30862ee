"""The dashboard in a real browser, headless: it is painted, obeys keys, and loads nothing else."""

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
DEADLINE_S = 60.0
COLOURS = """(() => {
  const canvas = document.querySelector('.xterm-text-layer');
  if (!canvas) return 0;
  const seen = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
  return new Set(new Uint32Array(seen.buffer)).size;
})()"""
"""How many colours are painted: letters of several kinds, with their smooth edges, are many."""


def program() -> str:
    """The browser; a skip with the reason where there is none, which CI never has."""
    found = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if found is None:
        assert not os.environ.get("CI"), "CI installs chromium"
        pytest.skip("there is no chromium here")
    return found


class Tab:
    """One page of a browser, by the DevTools protocol."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket, self._calls = socket, 0
        self.told: list[dict[str, Any]] = []
        """What the browser told of itself: errors of the page among it."""

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The result of a method."""
        self._calls += 1
        await self._socket.send_json({"id": self._calls, "method": method, "params": parameters})
        while True:
            said = json.loads((await self._socket.receive()).data)
            if said.get("id") == self._calls:
                found: dict[str, Any] = said["result"]
                return found
            self.told.append(said)

    async def value(self, expression: str) -> Any:
        """What a piece of JavaScript gives."""
        said = await self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        return said["result"].get("value")

    async def until(self, expression: str, holds: Callable[[Any], bool]) -> None:
        """Wait until it does."""
        async with asyncio.timeout(DEADLINE_S):
            while not holds(await self.value(expression)):
                await asyncio.sleep(0.1)

    async def press(self, key: str) -> None:
        """A key, as from the keyboard."""
        await self.call("Input.dispatchKeyEvent", type="keyDown", text=key, key=key)
        await self.call("Input.dispatchKeyEvent", type="keyUp", key=key)


@asynccontextmanager
async def browser(folder: Path) -> AsyncIterator[Tab]:
    """A browser of our own with one page, which believes that somebody looks at it."""
    running = await asyncio.create_subprocess_exec(
        *(program(), "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run"),
        *("--remote-debugging-port=0", f"--user-data-dir={folder}", "about:blank"),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with aiohttp.ClientSession() as session:
            page = await _page(session, folder / "DevToolsActivePort")
            async with session.ws_connect(page, max_msg_size=0) as socket:
                tab = Tab(socket)
                for part in ("Page", "Log", "Network"):
                    await tab.call(f"{part}.enable")
                await tab.call("Emulation.setFocusEmulationEnabled", enabled=True)
                yield tab
    finally:
        running.terminate()
        await running.wait()


async def _page(session: aiohttp.ClientSession, port: Path) -> str:
    """The address of its first page."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            if port.exists() and (words := port.read_text().split()):
                async with session.get(f"http://127.0.0.1:{words[0]}/json") as answer:
                    pages = [one for one in await answer.json() if one["type"] == "page"]
                if pages:
                    return str(pages[0]["webSocketDebuggerUrl"])
            await asyncio.sleep(0.1)


async def test_a_browser_paints_it_and_q_ends_it(address: str, tmp_path: Path) -> None:
    """The printed address shows it; what the page wants from elsewhere is blocked; `q` ends it."""
    async with browser(tmp_path) as tab:
        await tab.call("Page.navigate", url=address)
        await tab.until(COLOURS, lambda seen: bool(seen and seen > 20))
        assert "key=" not in await tab.value("document.location.href")
        await tab.value("document.querySelector('.xterm-helper-textarea').focus()")
        await tab.press("q")
        closed = "getComputedStyle(document.querySelector('.closed-dialog')).display"
        await tab.until(closed, lambda shown: shown not in (None, "none"))
    place = address.partition("?")[0]
    asked = {
        said["params"]["requestId"]: said["params"]["request"]["url"]
        for said in tab.told
        if said["method"] == "Network.requestWillBeSent"
    }
    elsewhere = {
        one for one, url in asked.items() if not url.startswith((place, "about:", "data:"))
    }
    blocked = {
        said["params"]["requestId"]
        for said in tab.told
        if said["method"] == "Network.loadingFailed"
        and said["params"].get("blockedReason") == "csp"
    }
    assert len(asked) > len(elsewhere)
    assert elsewhere <= blocked, [asked[one] for one in elsewhere - blocked]
