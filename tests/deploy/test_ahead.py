"""Connections that a deploy opens before it knows whether it needs them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from orchestrator.core.errors import Unreachable
from orchestrator.core.model import Job
from orchestrator.deploy.ahead import Ahead

from .caller import NearCaller


class Mortal(NearCaller):
    """A connection that may be cut."""

    is_cut = False

    async def call(self, op: str, **args: Any) -> Any:
        """As ever, or Unreachable."""
        if self.is_cut:
            raise Unreachable("the connection was cut.", target="ct200")
        return await super().call(op, **args)


class CountingLink:
    """A link that counts the connections it opened and those that are open."""

    def __init__(self, *, reachable: bool = True) -> None:
        self.opened = self.living = 0
        self._reachable = reachable
        self.callers: list[Mortal] = []

    def come_back(self) -> None:
        """From now on it can be reached."""
        self._reachable = True

    @asynccontextmanager
    async def bulk(self) -> AsyncIterator[NearCaller]:
        """A connection; Unreachable where none can be had."""
        await asyncio.sleep(0)
        if not self._reachable:
            raise Unreachable("nobody is there.", target="ct200")
        self.opened += 1
        self.living += 1
        try:
            self.callers.append(Mortal())
            yield self.callers[-1]
        finally:
            self.living -= 1


async def test_what_was_opened_ahead_is_used_and_no_second_connection_is_made(job: Job) -> None:
    """However often it is begun, there is one connection, and the deploy gets that one."""
    link = CountingLink()
    async with Ahead() as ahead:
        ahead.open(link, job)
        ahead.open(link, job)
        await ahead.bulk(link, job)
        assert (link.opened, link.living) == (1, 1)
    assert (link.opened, link.living) == (1, 0)


async def test_a_connection_that_nobody_began_is_opened_when_it_is_needed(job: Job) -> None:
    """A deploy whose size was not foreseen still has a connection of its own."""
    link = CountingLink()
    async with Ahead() as ahead:
        await ahead.bulk(link, job)
        assert link.living == 1
    assert link.living == 0


async def test_a_connection_that_was_not_needed_is_closed(job: Job) -> None:
    """Leaving closes it, also while it still is being opened."""
    link, other = CountingLink(), CountingLink()
    async with Ahead() as ahead:
        ahead.open(link, job)
        async with asyncio.timeout(10):
            while not link.living:
                await asyncio.sleep(0)
        ahead.open(other, job)
    assert (link.living, other.living) == (0, 0)


async def test_why_a_connection_could_not_be_opened_is_told_to_the_deploy_that_needs_it(
    job: Job,
) -> None:
    """Not before: a deploy that turns out to be small never hears of it."""
    link = CountingLink(reachable=False)
    async with Ahead() as ahead:
        ahead.open(link, job)
        await asyncio.sleep(0.01)
        with pytest.raises(Unreachable, match="nobody is there"):
            await ahead.bulk(link, job)


async def test_a_connection_that_was_cut_while_it_waited_is_opened_anew(job: Job) -> None:
    """A deploy gets one that answers, and all of them are closed in the end."""
    link = CountingLink()
    async with Ahead() as ahead:
        first = await ahead.bulk(link, job)
        link.callers[0].is_cut = True
        second = await ahead.bulk(link, job)
        assert second is not first
        await second.call("release_look", timeout_s=10, workdir=job.workdir)
        assert link.opened == 2
    assert link.living == 0


async def test_a_connection_that_is_cut_as_it_is_opened_is_opened_anew(job: Job) -> None:
    """What could not be had ahead is asked for once more when it is needed."""
    link = CountingLink(reachable=False)
    async with Ahead() as ahead:
        ahead.open(link, job)
        await asyncio.sleep(0.01)
        link.come_back()
        await ahead.bulk(link, job)
        assert (link.opened, link.living) == (1, 1)
