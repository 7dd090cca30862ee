"""Any order of events: what must hold of the state machine, whatever happens."""

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from orchestrator.core.decide.decision import Action, ActionKind, RunView, after
from orchestrator.core.decide.inputs import (
    Accepted,
    AckAsked,
    BackoffOver,
    Input,
    LaunchFailed,
    PolicyChanged,
    StopAsked,
    StopDone,
)
from orchestrator.core.decide.lifecycle import decide
from orchestrator.core.events import SessionChanged
from orchestrator.core.model import IncidentState, RunState
from tests.core.decide.stories import Story, crash, fine, policy, seen

_ORDER = [IncidentState.OPEN, IncidentState.ACKNOWLEDGED, IncidentState.RESOLVED]


class Life(RuleBasedStateMachine):
    """A run to which anything happens at any time, also what cannot, also twice."""

    def __init__(self) -> None:
        super().__init__()
        rules = policy("infra", "fx_trace_race", max_attempts=3, stop_on=("thread_death",))
        self.story = Story(rules)
        self.keys: set[str] = set()
        self.alerts: list[str] = []
        self.asked = False
        self.ended: RunState | None = None
        self.rank: dict[str, int] = {}

    def _tell(self, event: Input) -> None:
        view: RunView = self.story.view
        self.story.tell(event)
        decision = self.story.last
        again = decide(view, event, self.story.rules, self.story.now)
        assert again == decision
        self.keys |= {action.key for action in decision.actions}
        self.alerts += [one.alert.id for one in decision.outgoing]
        self._launches_at_most_once(decision.actions)
        assert after(view, decision) == self.story.view

    def _launches_at_most_once(self, actions: tuple[Action, ...]) -> None:
        launches = [one for one in actions if one.kind is ActionKind.LAUNCH]
        assert len(launches) <= 1
        if launches:
            assert self.story.state is RunState.STARTING
            assert not self.asked

    @rule()
    def accepted(self) -> None:
        """The run is asked for."""
        self._tell(Accepted())

    @rule(good=st.booleans())
    def launched(self, good: bool) -> None:
        """A launch ends."""
        self._tell(self.story.launched() if good else LaunchFailed(text="port taken"))

    @rule()
    def backoff_over(self) -> None:
        """The time of a relaunch has come."""
        self._tell(BackoffOver(attempt=self.story.view.run.attempt + 1))

    @rule(on=st.sampled_from([("infra", "fx_trace_race"), ("infra",), ()]))
    def edited(self, on: tuple[str, ...]) -> None:
        """The inventory says something else of restarts."""
        self.story.rules = policy(*on, max_attempts=3, stop_on=("thread_death",))
        self._tell(PolicyChanged())

    @rule()
    def stop(self) -> None:
        """A person wants its end."""
        self.asked = True
        self._tell(StopAsked())

    @rule()
    def stop_done(self) -> None:
        """A stop was carried out."""
        self._tell(StopDone())

    @rule(code=st.sampled_from([0, 1, 93, 143]))
    def exited(self, code: int) -> None:
        """The program ends."""
        self._tell(self.story.exited(code))

    @rule()
    def gone(self) -> None:
        """The relay vanishes."""
        self._tell(self.story.gone())

    @rule(signature=st.sampled_from(["fx_trace_race", "cuda_oom", "nccl_error", "nan_loss"]))
    def found(self, signature: str) -> None:
        """Something is found."""
        self._tell(seen(signature, family=None))

    @precondition(lambda self: self._present())
    @rule(signature=st.sampled_from([None, "fx_trace_race", "cuda_oom", "nccl_error"]))
    def verdict(self, signature: str | None) -> None:
        """The attempt is judged."""
        unresolved = self.story.incidents
        self._tell(crash(signature, family=None) if signature else fine(unresolved))

    def _present(self) -> bool:
        """Whether the present attempt was launched: there is nothing to judge before."""
        run = self.story.view.run
        return any(one.number == run.attempt for one in self.story.view.attempts)

    @precondition(lambda self: self.story.incidents)
    @rule(nth=st.integers(0, 5))
    def acknowledge(self, nth: int) -> None:
        """A person takes note."""
        known = self.story.incidents
        self._tell(AckAsked(incident=known[nth % len(known)].id))

    @rule(detached=st.booleans())
    def session(self, detached: bool) -> None:
        """The tmux session goes, or is there again."""
        before = self.story.view.run
        self._tell(SessionChanged(detached=detached, at=1.0))
        assert self.story.view.run == before

    @invariant()
    def ends_are_final(self) -> None:
        """A run that has ended stays as it ended, and has the time of its end."""
        if self.ended is not None:
            assert self.story.state is self.ended
        if self.story.state.ended:
            self.ended = self.story.state
            assert self.story.view.run.ended_at is not None
        else:
            assert self.story.view.run.ended_at is None

    @invariant()
    def budget_holds(self) -> None:
        """There are never more attempts than the policy has, nor gaps between them."""
        assert self.story.view.run.attempt <= 3
        numbers = [one.number for one in self.story.view.attempts]
        assert numbers == sorted(set(numbers))

    @invariant()
    def person_is_obeyed(self) -> None:
        """Once a person has asked for the end, the run stops or has ended."""
        if self.asked:
            assert self.story.state.ended or self.story.state is RunState.STOPPING

    @invariant()
    def no_alert_twice(self) -> None:
        """No message is made twice."""
        assert len(self.alerts) == len(set(self.alerts))

    @invariant()
    def incidents_only_move_on(self) -> None:
        """An incident never goes back to open, and its id is its own."""
        for one in self.story.incidents:
            rank = _ORDER.index(one.state)
            assert rank >= self.rank.get(one.id, 0)
            self.rank[one.id] = rank


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)
