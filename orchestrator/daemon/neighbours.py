"""What other daemons of the fleet drive, shown here as they tell it in the shared database.

Owns the two directions: our targets' views for the lease, and theirs onto the board. Must not:
reach a host, or another daemon.
"""

import logging
from collections.abc import Callable
from typing import Any

from orchestrator.clock import Clock
from orchestrator.core.errors import OrchError
from orchestrator.daemon.board import Board
from orchestrator.daemon.crew import Crew
from orchestrator.daemon.fleet import Fleet
from orchestrator.daemon.inventory_file import InventoryFile
from orchestrator.daemon.leasing import Leasing

REFRESH_S = 1.0

logger = logging.getLogger(__name__)


class Neighbours:
    """Keeps the board whole, and hands hosts over to the fleet and the crew and back."""

    def __init__(
        self,
        *,
        clock: Clock,
        board: Board,
        fleet: Fleet,
        crew: Crew,
        leasing: Leasing,
        file: InventoryFile,
        deliver: Callable[[], None],
    ) -> None:
        self._clock, self._board, self._fleet, self._crew = clock, board, fleet, crew
        self._leasing, self._file, self._deliver = leasing, file, deliver
        leasing.views = self._views
        leasing.on_change = self._changed

    async def run(self) -> None:
        """For ever, where the fleet is shared."""
        while self._leasing.shared:
            await self._clock.rest(REFRESH_S)
            try:
                self._show_targets()
                await self._crew.display.refresh()
                # What could not be taken up at a gain, since the store did not answer.
                await self._crew.take_up()
            except OrchError as error:
                logger.warning("neighbours.unseen", extra={"why": str(error)})

    async def _changed(self, lost: frozenset[str]) -> None:
        inventory = self._file.current()
        if lost:
            await self._crew.let_go(lost)
            for host in self._fleet.hosts():
                if self._leasing.key(host) in lost:
                    await self._fleet.leave(host)
        self._fleet.follow(inventory)
        await self._crew.take_up()
        self._deliver()  # the alerts that a gained host's last driver left behind

    def _views(self, key: str) -> list[Any]:
        """Of one of our hosts: its targets as they are shown here."""
        targets = self._file.current().targets.values()
        names = [one.name for one in targets if self._leasing.key(one.host) == key]
        views = (self._board.view("targets", name) for name in names)
        return [view for view in views if view is not None]

    def _show_targets(self) -> None:
        for lease in self._leasing.all:
            if self._leasing.drives(lease.host):
                continue
            who = f"{lease.driver['machine']}, pid {lease.driver['pid']}"
            for view in lease.targets:
                self._board.put("targets", view["name"], {**view, "driver": who})
