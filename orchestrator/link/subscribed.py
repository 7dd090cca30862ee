"""What a probe is to be told so that nobody notices that it is a new one: watches, kept calls.

Owns who gets which frame. Keeps no probe alive (keeper.py) and bounds nothing (feeds.py).
"""

import logging
from typing import Any

from orchestrator.link.calls import CallFailed
from orchestrator.link.feeds import Feed, Watch
from orchestrator.link.probe_channel import ProbeChannel
from orchestrator.link.shell_probe import ShellProbe
from orchestrator.probe.frames import Frame

logger = logging.getLogger(__name__)


Life = ProbeChannel | ShellProbe


class Subscribed:
    """The subscriptions of one link to `target`, whichever probe serves them."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._watches: dict[str, Watch] = {}
        self._feeds: list[Feed] = []
        self._kept: dict[str, dict[str, Any]] = {}
        self._untold: dict[str | Watch, None] = {}
        """Watches, and ops of kept calls, that the probe which is there does not know."""

    def watch(self, watch: Watch) -> None:
        """Begin a watch, in place of one of its name; the probe is not told by this."""
        replaced = self._watches.get(watch.name)
        if replaced is not None:
            replaced.end()
            self._untold.pop(replaced, None)
        self._watches[watch.name] = watch
        self._untold[watch] = None

    def keep(self, op: str, args: dict[str, Any]) -> None:
        """Make a call on every probe from now on; the one that is there is not told by this."""
        self._kept[op] = args
        self._untold[op] = None

    def told(self, what: str | Watch) -> None:
        """The probe that is there was told."""
        self._untold.pop(what, None)

    def untell(self, watch: Watch) -> None:
        """It could not be told after all."""
        if self._watches.get(watch.name) is watch:
            self._untold[watch] = None

    def drop(self, name: str) -> None:
        """Forget a watch, if there is one of that name."""
        watch = self._watches.pop(name, None)
        if watch is not None:
            self._untold.pop(watch, None)

    def listen(self, feed: Feed) -> None:
        """Give a feed the frames of its kinds."""
        self._feeds.append(feed)

    def unlisten(self, feed: Feed) -> None:
        """End a feed."""
        feed.end()
        self._feeds.remove(feed)

    def end(self) -> None:
        """End every loop that reads."""
        for queue in (*self._watches.values(), *self._feeds):
            queue.end()

    def accept(self, frame: Frame) -> None:
        """Give a frame to whom it belongs."""
        name = frame.get("watch")
        if isinstance(name, str):
            watch = self._watches.get(name)
            if watch is not None:
                watch.accept(frame)
            return
        for feed in self._feeds:
            if frame["kind"] in feed.kinds:
                feed.accept(frame)

    def renew(self) -> None:
        """There is a new probe, which knows nothing."""
        self._untold = dict.fromkeys((*self._watches.values(), *self._kept))

    @property
    def any_untold(self) -> bool:
        """Whether there is something to `tell`."""
        return bool(self._untold)

    async def tell(self, probe: Life) -> None:
        """Tell the probe what it does not know; Unreachable where that fails."""
        for what in list(self._untold):
            if what not in self._untold:
                continue  # it was dropped while others were told
            if isinstance(what, Watch):
                await self._tell_watch(probe, what)
            else:
                await self._tell_kept(probe, what)
            self._untold.pop(what, None)

    async def _tell_watch(self, probe: Life, watch: Watch) -> None:
        if watch.over:
            return
        try:
            await probe.call("watch", **watch.restart())
        except CallFailed as exc:
            self._watches.pop(watch.name, None)
            watch.fail(exc)

    async def _tell_kept(self, probe: Life, op: str) -> None:
        try:
            await probe.call(op, **self._kept[op])
        except CallFailed as exc:
            logger.warning(
                "link.kept_call_failed",
                extra={"target": self._target, "op": op, "reason": str(exc)},
            )
