"""Who asks for a run while lost ones come back waits for them, a while, and is told of it.

Owns how far the asking is (rebuilding.py does it), and which of it a question has to wait for.
"""

import asyncio
import contextlib
from typing import NamedTuple

from orchestrator.core.errors import UsageError
from orchestrator.core.model import Inventory
from orchestrator.daemon.inventory_file import InventoryFile
from orchestrator.store.store import Store

WAITS_S = 10.0
"""For an answer that changes nothing, which a dashboard may want as well."""
ACTS_AFTER_S = 30.0
"""For what cannot be undone."""


class Place(NamedTuple):
    """A job and one of its targets, by name."""

    job: str
    target: str


class ComingBack:
    """The places that are still asked for lost runs; all of them until it is known which."""

    def __init__(self, file: InventoryFile, store: Store) -> None:
        self._file, self._store = file, store
        self._news = asyncio.Event()
        self._count = 0
        self._left: set[Place] | None = None
        self._refused: dict[Place, str] = {}

    @property
    def over(self) -> bool:
        """Whether every lost run is back, or none was."""
        return self._left is not None and not self._left

    @property
    def words(self) -> str | None:
        """How far it is, for a person; None where it is over."""
        if not self._left:
            return None
        left = sorted({target for _, target in self._left})
        asked = f"{self._count - len(self._left)} of {self._count} targets asked"
        return f"{asked}, {', '.join(left)} not yet"

    @property
    def how_far(self) -> str:
        """Likewise, also before it is known."""
        return self.words or "it is not known yet of which targets"

    @property
    def refusals(self) -> str | None:
        """What targets answered that could be reached and gave no runs; None where none did."""
        found = [f"{place.target}: {why}" for place, why in sorted(self._refused.items())]
        return "; ".join(dict.fromkeys(found)) or None

    def ask(self, places: set[Place]) -> None:
        """It is known now which places are to be asked."""
        self._left, self._count = set(places), len(places)
        self._ring()

    def asked(self, place: Place) -> None:
        """All that a place had is back."""
        self._refused.pop(place, None)
        self._let_pass(place)

    def refused(self, place: Place, why: str) -> None:
        """It was reached and cannot say what it has: nobody waits for it, it is asked again."""
        self._refused[place] = why
        self._let_pass(place)

    def came(self) -> None:
        """A run is back."""
        self._ring()

    async def settle_on(self, words: str, within_s: float = WAITS_S) -> None:
        """Before RUN or INCIDENT is looked up: let those come back that it may mean.

        UsageError where they do not in time, unless RUN is the whole name of one that is here.
        """
        if self.over or not words:
            return
        job = _job_of(words, self._file.current())
        try:
            async with asyncio.timeout(within_s):
                while self._lacks(job):
                    news = self._news  # before the look, so that none falls between the two
                    if await self._is_here(words):
                        return
                    await news.wait()
        except TimeoutError:
            raise UsageError(
                f"The database was lost, and its runs are being asked for at their targets "
                f"({self.how_far}): {words} may mean a run that is not back yet.",
                remedy="Name the run in full (`orch ps -a`), or try again once `orch status` no "
                "longer says so.",
            ) from None

    async def lacks(self, job: str) -> bool:
        """Whether runs of a job may still come back; also where that is not known in a while."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(WAITS_S):
                while self._left is None:
                    await self._news.wait()
        return self._lacks(job)

    async def settle_job(self, job: str) -> None:
        """Before a new run of a job: it is numbered after, and may replace, those that come back.

        UsageError where they do not in time.
        """
        try:
            async with asyncio.timeout(ACTS_AFTER_S):
                while self._lacks(job):
                    await self._news.wait()
        except TimeoutError:
            raise UsageError(
                f"The database was lost, and runs of {job} are being asked for at their targets "
                f"({self.how_far}).",
                remedy="See that they can be reached (`orch doctor`), and try again.",
            ) from None

    def _lacks(self, job: str | None) -> bool:
        left = self._left
        return left is None or any(job in (None, one) for one, _ in left)

    def _let_pass(self, place: Place) -> None:
        if self._left is not None:
            self._left.discard(place)
        self._ring()

    def _ring(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    async def _is_here(self, words: str) -> bool:
        runs = {one.id for one in await self._store.runs.list()}
        return words in runs | {one.id for one in await self._store.incidents.list()}


def _job_of(words: str, inventory: Inventory) -> str | None:
    """The only job whose runs the words can mean; None where that may be any."""
    if words in inventory.jobs:
        return words
    name, _, number = words.rpartition("-")
    whole = name in inventory.jobs and number.isdigit()
    return name if whole and not any(one.startswith(words) for one in inventory.jobs) else None
