"""The command palette: everything that has a key here, found by its name."""

from collections.abc import Iterator

from textual.command import DiscoveryHit, Hit, Hits, Provider

from tui import keys
from tui.screens.page import Page


class KeyCommands(Provider):
    """The keys of the page below the palette, and of the app."""

    def _keys(self) -> Iterator[keys.Key]:
        page = self.screen.PLACE if isinstance(self.screen, Page) else ""
        for name in (page, "app"):
            yield from (key for key in keys.at(name) if key.id != "palette")

    async def discover(self) -> Hits:
        """All of them, before anything is typed."""
        for key in self._keys():
            yield DiscoveryHit(f"{key.label}  ({key.names})", self._call(key), help=key.help)

    async def search(self, query: str) -> Hits:
        """Those whose name or help is like what was typed."""
        matcher = self.matcher(query)
        for key in self._keys():
            name = f"{key.label}  ({key.names})"
            score = max(matcher.match(key.label), matcher.match(key.help) * 0.8)
            if score > 0:
                yield Hit(score, matcher.highlight(name), self._call(key), help=key.help)

    def _call(self, key: keys.Key):  # type: ignore[no-untyped-def]  # Textual's callback type
        async def call() -> None:
            node = self.app if "app" in key.pages else self.screen
            await self.app.run_action(key.action, default_namespace=node)

        return call
