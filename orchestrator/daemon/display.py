"""Runs and incidents as clients see them: put on the board anew, and who waits for them woken.

It tells what the store and the supervisors know; it must not decide for a run.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from orchestrator.api import messages
from orchestrator.core.model import Incident, LinkState, Run
from orchestrator.daemon.board import Bell, Board
from orchestrator.daemon.fleet import Fleet
from orchestrator.daemon.views import incident_view, run_view
from orchestrator.reading import place_of, read_to
from orchestrator.store.store import Store
from orchestrator.supervise import Supervisor

SHOWN_RUNS = 200


class Display:
    """What is shown of all runs; `members` are the supervisors of those that live here."""

    def __init__(
        self,
        *,
        store: Store,
        board: Board,
        fleet: Fleet,
        drives: Callable[[str], bool],
        members: Mapping[str, Supervisor],
    ) -> None:
        self._store, self._board, self._fleet = store, board, fleet
        self._drives, self._members = drives, members
        self._bells: defaultdict[str, Bell] = defaultdict(Bell)
        fleet.on_link.append(self._link_changed)

    async def refresh(self) -> None:
        """Show the newest runs as the store has them, those that are supervised here left out."""
        runs = {run.id: run for run in await self._store.runs.list(limit=SHOWN_RUNS)}
        found = await self._store.incidents.list(runs=tuple(runs))
        for run in reversed(runs.values()):
            view, shown = self._view(run, detached=False), self._board.view("runs", run.id)
            if run.id not in self._members and view != shown:
                self._board.put("runs", run.id, view)
                self._bells[run.id].ring()
        for incident in reversed(found):
            if incident.run not in self._members:
                view_of = incident_view(incident, runs[incident.run])
                self._board.put("incidents", incident.id, view_of)

    def bell(self, run: str) -> Bell:
        """Rings whenever the run has something new."""
        return self._bells[run]

    async def view(self, run_id: str, stored: Run | None = None) -> messages.RunView:
        """The run as clients see it, its newest values included."""
        member = self._members.get(run_id)
        # One whose host was lost a moment ago is let go of soon, and knows less than the store.
        if member is not None and self._drives(member.view.run.host):
            return self._live_view(member)
        run = stored or await self._store.runs.get(run_id)
        return self._view(run, detached=False)

    def changed(self, run: str) -> None:
        """A run has something new."""
        member = self._members.get(run)
        if member is not None:
            self._board.renew("runs", run, partial(self._live_view, member))
            for incident in member.view.incidents:
                view = partial(incident_view, incident, member.view.run)
                self._board.renew("incidents", incident.id, view)
        self._bells[run].ring()

    def resolved(self, by: Run, incidents: tuple[Incident, ...]) -> None:
        """A run that finishes resolves what earlier runs of its job left open."""
        for incident in incidents:
            shown = self._board.view("incidents", incident.id)
            if incident.run == by.id or shown is None:
                continue
            there = replace(by, target=shown["target"])
            self._board.put("incidents", incident.id, incident_view(incident, there))
            member = self._members.get(incident.run)
            if member is not None:
                known = (
                    incident if one.id == incident.id else one for one in member.view.incidents
                )
                member.view = replace(member.view, incidents=tuple(known))
            self._bells[incident.run].ring()

    def _link_changed(self, target: str) -> None:
        for run, member in self._members.items():
            if member.job.target.name == target:
                self.changed(run)

    async def show(self, run_id: str) -> None:
        """Show a run and its incidents as the store has them."""
        view = await self._store.view(run_id)
        self._board.put("runs", run_id, self._view(view.run, detached=False))
        for incident in view.incidents:
            self._board.put("incidents", incident.id, incident_view(incident, view.run))

    def _live_view(self, member: Supervisor) -> messages.RunView:
        run = member.view.run
        if member.reader is not None:
            tally = member.reader.tally
            run = replace(
                run, step=tally.step, loss=tally.loss, phase=tally.phase, metrics=tally.metrics
            )
        return self._view(run, detached=member.detached)

    def _view(self, run: Run, *, detached: bool) -> messages.RunView:
        member = self._members.get(run.id)  # it may be where its target was before an edit
        link, seen_at = self._fleet.named(run.target if member is None else member.job.target.name)
        if not self._drives(run.host) and (shown := self._board.view("targets", run.target)):
            link, seen_at = LinkState(shown["link"]), shown["seen_at"]
        log_bytes = self._store.logs.end(run.id, max(run.attempt, 1))
        view = run_view(run, link=link, seen_at=seen_at, log_bytes=log_bytes, detached=detached)
        place = place_of(run)
        if place not in (None, self._store.place) and run.state.ended and log_bytes < read_to(run):
            view["log_at"] = str(place)
        return view
