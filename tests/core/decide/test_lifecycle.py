"""The life of a run, told as stories."""

from dataclasses import replace

import pytest

from orchestrator.core.decide.decision import HUMAN, STOP_ON, ActionKind
from orchestrator.core.decide.incidents import told_of
from orchestrator.core.decide.inputs import (
    Accepted,
    AckAsked,
    BackoffOver,
    LaunchFailed,
    PolicyChanged,
    StopAsked,
    StopDone,
)
from orchestrator.core.events import SessionChanged
from orchestrator.core.findings import Certainty, Outcome, Role
from orchestrator.core.model import IncidentState, Job, RunState
from tests.core.decide.stories import Story, crash, fine, policy, seen


def test_run_that_goes_well() -> None:
    """pending, starting, running, finished: with one launch and no alert."""
    story = Story().tell(Accepted())
    assert (story.state, story.actions) == (RunState.STARTING, [ActionKind.LAUNCH])
    story.tell(story.launched())
    assert (story.state, story.actions) == (RunState.RUNNING, [])
    story.tell(story.exited(0))
    assert (story.state, story.view.run.exit_code) == (RunState.RUNNING, 0)
    story.tell(fine())
    assert story.state is RunState.FINISHED
    assert story.view.run.ended_at is not None
    assert story.sent == []


def test_result_and_its_action_are_one_decision() -> None:
    """What an action led to and its mark are stored together, so that no run is left waiting."""
    story = Story(policy("infra")).tell(Accepted())
    story.tell(story.launched())
    marks = [story.last.done]
    story.tell(story.exited(1), crash("nccl_error", family=None), BackoffOver(attempt=2))
    marks.append(story.last.done)
    story.tell(story.launched(), StopAsked(), StopDone())
    marks.append(story.last.done)
    assert marks == [{ActionKind.LAUNCH}, {ActionKind.RELAUNCH}, {ActionKind.STOP}]


def test_run_that_cannot_start() -> None:
    """A launch that fails for good ends the run with an alert that says why."""
    story = Story().tell(Accepted(), LaunchFailed(text="foreign PID 7"))
    assert story.state is RunState.FAILED
    assert story.sent == [("firing", "launch_failed")]
    assert "foreign PID 7" in story.last.outgoing[0].alert.annotations["description"]


def test_run_that_crashes() -> None:
    """A crash ends the run and opens one incident with one alert to all sinks."""
    story = Story().running()
    story.tell(story.exited(1), crash())
    assert (story.state, story.actions) == (RunState.FAILED, [])
    (incident,) = story.incidents
    assert story.view.run.incident == incident.id
    assert story.view.run.verdict is not None
    assert story.sent == [("firing", "fx_trace_race")]
    assert story.last.outgoing[0].sinks == ("ops", "phone")


def test_thread_death_then_exit_is_one_alert() -> None:
    """The alert comes at the thread's death; the verdict updates the incident without another."""
    story = Story().running().tell(seen(same_as="dflash-1"))
    assert (story.state, story.sent) == (RunState.RUNNING, [("firing", "fx_trace_race")])
    notes = story.last.outgoing[0].alert.annotations
    assert notes["same_as"] == "same as run 1: not a fix"
    assert notes["thread"] == "Thread-3 (compile)"
    assert notes["next_steps"] == "1. Do this.\n2. Then that."
    story.tell(story.exited(1), crash())
    (incident,) = story.incidents
    assert (incident.occurrences, incident.same_as) == (1, "dflash-1")
    assert incident.finding["traceback"] == "Traceback (whole)"
    assert story.sent == [("firing", "fx_trace_race")]


def test_verdict_with_another_signature_is_told() -> None:
    """Where the verdict names another signature the same incident is sent again."""
    story = Story().running().tell(seen("python_error", family=None))
    story.tell(story.exited(1), crash("cuda_oom", family=None))
    (incident,) = story.incidents
    assert incident.signature == "cuda_oom"
    assert story.sent == [("firing", "python_error"), ("firing", "cuda_oom")]


def test_guess_does_not_replace_what_was_seen() -> None:
    """An exit code alone says less than the thread that was seen dying."""
    story = Story().running().tell(seen())
    story.tell(story.exited(143), crash("interrupted", family=None, certainty=Certainty.GUESS))
    assert [one.signature for one in story.incidents] == ["fx_trace_race"]
    assert len(story.sent) == 1


def test_sixty_four_ranks_are_one_alert() -> None:
    """One failure on every rank, and what falls with it, is one incident."""
    story = Story().running()
    for rank in range(64):
        story.tell(seen("cuda_oom", ends="rank", rank=rank, fingerprint="v1:oom"), later_s=0.01)
        story.tell(seen("nccl_error", ends="rank", rank=rank, family=None), later_s=0.01)
    (incident,) = story.incidents
    assert (incident.signature, incident.occurrences) == ("cuda_oom", 128)
    assert story.sent == [("firing", "cuda_oom")]


def test_another_face_of_the_same_race_is_the_same_incident() -> None:
    """A family joins its faces over time; a family that is only the signature's name does not."""
    story = Story().running().tell(seen("fx_trace_race", family="fx_trace"))
    story.tell(seen("segfault", family="fx_trace"), later_s=3600)
    (incident,) = story.incidents
    assert (incident.signature, incident.occurrences) == ("fx_trace_race", 2)
    other = Story().running()
    for number in (1, 2):
        one = seen("python_error", family="python_error", fingerprint=f"v1:{number}")
        other.tell(one, later_s=3600)
    assert [one.family for one in other.incidents] == [None, None]


def test_finish_is_quiet_about_what_was_acknowledged() -> None:
    """An acknowledged incident is resolved without a second `resolved`."""
    story = Story().running().tell(seen())
    story.tell(AckAsked(incident=story.incidents[0].id), story.exited(0), fine())
    assert story.incidents[0].state is IncidentState.RESOLVED
    assert [status for status, _ in story.sent] == ["firing", "resolved"]


def test_what_the_relay_told_of_keeps_its_message() -> None:
    """The end that a relay told of is sent under its id; a warning before or news after is not."""
    told, story, ids = "dflash-2.u2.1-end", Story().running(), []
    for event in (
        seen("nan_loss", ends=None, family=None),
        seen("fx_trace_race"),
        crash("cuda_oom", family=None),
    ):
        story.tell(replace(event, told=told))
        ids += [one.alert.id for one in story.last.outgoing]
    assert ids[1] == told
    assert [name.partition("-firing-")[2] for name in (ids[0], ids[2])] == [
        "nan_loss-critical",
        "cuda_oom-critical",
    ]


def test_a_verdict_that_the_relay_told_of_keeps_its_message() -> None:
    """An end that only the verdict knows is told under the relay's id, once."""
    story = Story().running()
    story.tell(story.exited(1), replace(crash(None, family=None), told="dflash-2.u2.1-end"))
    assert [one.alert.id for one in story.last.outgoing] == ["dflash-2.u2.1-end"]


def test_two_deaths_far_apart_are_two_incidents() -> None:
    """What dies an hour after another thread did not die of it."""
    story = Story().running().tell(seen())
    story.tell(seen("cuda_oom", family=None), later_s=3600)
    assert [one.signature for one in story.incidents] == ["fx_trace_race", "cuda_oom"]


def test_traceback_of_a_living_process_is_no_incident() -> None:
    """What ended nothing, and what is no root, opens nothing."""
    story = Story().running().tell(seen("python_error", ends=None))
    story.tell(seen("python_error", role=Role.CASCADE))
    opened = [len(story.incidents)]
    story.tell(seen("nan_loss", ends=None, family=None))
    assert (opened, [one.signature for one in story.incidents]) == ([0], ["nan_loss"])


def test_a_hint_does_not_swallow_the_failure_that_it_hints_at() -> None:
    """Compiled code was given up, says the log; the race of the same family is told still."""
    story = Story().running()
    story.tell(seen("silent_eager", ends=None, role=Role.DIAGNOSTIC, family="fx"))
    story.tell(seen("fx_trace_race", family="fx"))
    assert [one.signature for one in story.incidents] == ["silent_eager", "fx_trace_race"]


@pytest.mark.parametrize("word", ["thread_death", "fx_trace_race"])
def test_stop_on_thread_death(word: str) -> None:
    """With `stop_on` a thread's death stops the run, and the run has failed."""
    story = Story(policy(stop_on=(word,))).running().tell(seen())
    assert (story.state, story.actions) == (RunState.STOPPING, [ActionKind.STOP])
    assert story.view.stop_reason == STOP_ON
    story.tell(story.exited(143), crash())
    assert story.state is RunState.FAILED
    assert story.sent == [("firing", "fx_trace_race")]


def test_stop_by_a_person() -> None:
    """A stop ends the program with its grace, and the run is stopped, without an alert."""
    story = Story(policy("interruption")).running().tell(StopAsked(grace_s=5.0))
    assert story.action(ActionKind.STOP).grace_s == 5.0
    story.tell(seen("interrupted"), StopDone(), story.exited(143))
    assert (story.state, story.actions) == (RunState.STOPPING, [])
    story.tell(crash("interrupted", family=None))
    assert (story.state, story.sent, story.incidents) == (RunState.STOPPED, [], ())


def test_what_was_said_or_seen_once_is_decided_once() -> None:
    """A second stop asks for nothing more; the first word of an attempt's end is the one kept."""
    story = Story().running().tell(StopAsked(grace_s=5.0)).tell(StopAsked(grace_s=0.0))
    assert (story.actions, story.last.notes) == ([], ())
    story = Story().running()
    story.tell(story.exited(3))
    ended_at = story.view.attempts[-1].ended_at
    story.tell(story.gone())
    story.tell(story.exited(4))
    assert (story.last.attempts, story.last.notes) == ((), ())
    assert (story.view.run.exit_code, story.view.attempts[-1].ended_at) == (3, ended_at)


def test_person_beats_the_policy() -> None:
    """A person's stop during the policy's makes the run stopped, not failed or restarted."""
    story = Story(policy("fx_trace_race", stop_on=("thread_death",))).running().tell(seen())
    story.tell(StopAsked())
    assert story.view.stop_reason == HUMAN
    story.tell(story.exited(143), crash())
    assert (story.state, story.actions) == (RunState.STOPPED, [])


def test_stop_before_the_launch() -> None:
    """A stop of what was not accepted yet ends it at once, and nothing begins after it."""
    story = Story().tell(StopAsked())
    assert story.state is RunState.STOPPED
    assert ActionKind.LAUNCH in story.last.cancel
    assert story.tell(Accepted()).last.actions == ()


def test_stop_while_it_is_launched() -> None:
    """A stop during the launch ends once nothing is there; a launch that crossed it is undone."""
    story = Story().tell(Accepted(), StopAsked())
    assert ActionKind.LAUNCH in story.last.cancel
    story.tell(StopDone())
    assert (story.state, story.actions) == (RunState.STOPPED, [])
    story.tell(story.launched())
    assert (story.state, story.actions) == (RunState.STOPPED, [ActionKind.END_REMAINS])


@pytest.mark.parametrize(
    ("signature", "actions"),
    [
        ("cuda_illegal_access", [ActionKind.COLLECT_EVIDENCE]),
        ("nccl_timeout", [ActionKind.COLLECT_EVIDENCE]),
        ("gpu_fault", [ActionKind.COLLECT_EVIDENCE]),
        ("python_error", []),
    ],
)
def test_a_crash_about_gpus_is_looked_at(signature: str, actions: list[ActionKind]) -> None:
    """What the GPUs say is kept of a crash that concerns them, though nothing is restarted."""
    story = Story().running()
    story.tell(story.exited(1), crash(signature, family=None))
    assert (story.state, story.actions) == (RunState.FAILED, actions)


def test_restart_by_the_policy() -> None:
    """A named failure backs off, longer each time, and the budget ends it with another alert."""
    story = Story(policy("infra", max_attempts=3)).running()
    delays = []
    for attempt in (1, 2):
        story.tell(story.exited(1), crash("nccl_timeout", family=None))
        assert story.state is RunState.BACKOFF
        assert story.actions == [ActionKind.COLLECT_EVIDENCE, ActionKind.RELAUNCH]
        relaunch = story.action(ActionKind.RELAUNCH)
        assert (relaunch.attempt, relaunch.at is not None) == (attempt + 1, True)
        delays.append((relaunch.at or 0) - story.now)
        story.tell(BackoffOver(attempt=attempt + 1))
        assert story.actions == [ActionKind.END_REMAINS, ActionKind.LAUNCH]
        assert {action.attempt for action in story.last.actions} == {attempt + 1}
        story.tell(BackoffOver(attempt=attempt + 1), story.launched())
        assert (story.state, story.view.run.attempt) == (RunState.RUNNING, attempt + 1)
    story.tell(story.exited(1), crash("nccl_timeout", family=None))
    assert (story.state, delays) == (RunState.FAILED, [30.0, 60.0])
    (incident,) = story.incidents
    assert (incident.occurrences, incident.attempt) == (3, 3)
    assert story.sent == [("firing", "nccl_timeout")] * 2
    said = story.last.outgoing[0].alert.annotations["description"]
    assert "Not restarted: 3 attempts within 1 h" in said
    assert [one.number for one in story.view.attempts] == [1, 2, 3]


def test_stop_during_backoff() -> None:
    """A stop during back-off stops, and the relaunch does not come, which ended what was left."""
    story = Story(policy("infra")).running()
    story.tell(story.exited(1), crash("nccl_error", family=None), StopAsked(grace_s=7.0))
    assert story.state is RunState.STOPPED
    assert ActionKind.RELAUNCH in story.last.cancel
    assert story.actions == [ActionKind.END_REMAINS]
    assert story.action(ActionKind.END_REMAINS).grace_s == 7.0
    assert story.tell(BackoffOver(attempt=2)).last.actions == ()


def test_policy_that_is_edited_in_a_backoff_counts() -> None:
    """A new delay counts from the end of the attempt; the relaunch that waited is cancelled."""
    story = Story(policy("infra")).running()
    story.tell(story.exited(1), crash("nccl_error", family=None))
    ended_at = story.view.attempts[-1].ended_at
    story.rules = replace(story.rules, job=_restarting(story.rules.job, backoff_s=300.0))
    story.tell(PolicyChanged())
    assert story.state is RunState.BACKOFF
    assert story.last.cancel == {ActionKind.RELAUNCH}
    assert story.action(ActionKind.RELAUNCH).at == (ended_at or 0.0) + 300.0
    first = story.action(ActionKind.RELAUNCH)
    story.tell(PolicyChanged())
    assert story.action(ActionKind.RELAUNCH).key != first.key
    assert story.tell(BackoffOver(attempt=1)).last.done == frozenset()
    assert story.tell(BackoffOver(attempt=2)).state is RunState.STARTING
    assert story.tell(PolicyChanged()).last.notes == ()


def test_policy_that_names_the_failure_no_more_ends_the_backoff() -> None:
    """The run has failed, and whoever was told that it restarts is told that it does not."""
    story = Story(policy("infra")).running()
    story.tell(story.exited(1), crash("nccl_error", family=None))
    story.rules = policy()
    story.tell(PolicyChanged())
    assert (story.state, story.view.run.ended_at) == (
        RunState.FAILED,
        story.view.attempts[-1].ended_at,
    )
    assert ActionKind.RELAUNCH in story.last.cancel
    said = story.last.outgoing[0].alert.annotations["description"]
    assert "Not restarted any more: the job has no restart policy." in said


def test_how_a_backoff_without_a_policy_ends_is_how_its_attempt_ended() -> None:
    """Lost where nothing said how it ended; a plain shell's word, code or signal, is one."""
    for word, state in ((137, RunState.FAILED), (None, RunState.LOST)):
        story = Story(policy("infra")).running()
        story.tell(story.exited(None) if word else story.gone())
        story.tell(replace(crash("nccl_error", family=None), raw=word))
        assert story.state is RunState.BACKOFF
        story.rules = policy()
        assert story.tell(PolicyChanged()).state is state


def _restarting(job: Job, **changes: float) -> Job:
    return replace(job, restart=replace(job.restart, **changes))  # type: ignore[arg-type]


def test_relay_that_is_gone_is_a_lost_run() -> None:
    """Without an exit record the run is lost, with an alert, unless the policy knows the cause."""
    story = Story().running()
    story.tell(story.gone(), replace(fine(), gone="rebooted"))
    assert story.state is RunState.LOST
    assert story.sent == [("firing", "lost")]
    assert story.incidents[0].title == "the process is gone, and its host was rebooted"
    assert (story.view.run.exit_code, story.view.run.signal) == (None, None)


@pytest.mark.parametrize(
    ("code", "signal", "signature"), [(7, None, "failed_exit"), (None, 9, "killed")]
)
def test_end_that_nothing_explains(code: int | None, signal: int | None, signature: str) -> None:
    """A non-zero end without a crash in the log is a failure all the same."""
    story = Story().running()
    story.tell(story.exited(code, signal), fine())
    assert story.state is RunState.FAILED
    assert story.sent == [("firing", signature)]


def test_finished_run_resolves_what_was_open() -> None:
    """A run that finishes resolves its job's open incidents, and those only up to itself."""
    first, third = Story(number=1).running(), Story(number=3).running()
    for story in (first, third):
        story.tell(story.exited(1), crash())
    second = Story(number=2).running()
    second.tell(second.exited(0), fine(unresolved=(*first.incidents, *third.incidents)))
    (resolved,) = second.last.incidents
    assert (resolved.run, resolved.state) == ("dflash-1", IncidentState.RESOLVED)
    (sent,) = second.last.outgoing
    assert (sent.alert.status, sent.alert.labels["run"]) == ("resolved", "dflash-1")
    assert sent.alert.ends_at == second.now
    assert "run 2 finished" in sent.alert.annotations["description"]


def test_acknowledgement_is_told_once() -> None:
    """An acknowledgement sends one `resolved`; later occurrences of the same are quiet."""
    story = Story().running().tell(seen())
    (incident,) = story.incidents
    story.tell(AckAsked(incident=incident.id), AckAsked(incident=incident.id))
    assert story.sent == [("firing", "fx_trace_race"), ("resolved", "fx_trace_race")]
    assert story.incidents[0].state is IncidentState.ACKNOWLEDGED
    story.tell(seen())
    assert (story.incidents[0].occurrences, len(story.sent)) == (2, 2)
    assert story.incidents[0].state is IncidentState.ACKNOWLEDGED


def test_nothing_follows_the_resolved_of_an_acknowledgement() -> None:
    """A new face and used-up restarts of an acknowledged incident are recorded, and told nobody."""
    rules = policy("infra", max_attempts=2)
    story = Story(rules).running().tell(seen("nccl_error", family=None))
    story.tell(AckAsked(incident=story.incidents[0].id))
    before = list(story.sent)
    story.tell(story.exited(1), crash("nccl_timeout", family=None))
    story.tell(
        BackoffOver(attempt=2),
        story.launched(),
        story.exited(1),
        crash("nccl_timeout", family=None),
    )
    assert story.state is RunState.FAILED
    assert story.incidents[0].signature == "nccl_timeout"
    assert story.sent == before
    assert before[-1][0] == "resolved"


def test_a_lost_session_says_nothing_about_the_run() -> None:
    """A dead tmux server leaves the run running."""
    story = Story().running()
    story.tell(SessionChanged(detached=True, at=2.0))
    assert story.state is RunState.RUNNING
    assert story.last.notes[0].kind == "session.changed"


def test_same_log_read_twice_decides_the_same() -> None:
    """A daemon that is killed and reads again reaches the same ids and keys."""
    first, second = Story(policy("infra")).running(), Story(policy("infra")).running()
    for story in (first, second):
        story.tell(seen("nccl_error", family=None), story.exited(1))
        story.tell(crash("nccl_error", family=None))
    assert first.incidents[0].id == second.incidents[0].id
    assert [one.key for one in first.last.actions] == [one.key for one in second.last.actions]


def test_what_fell_along_is_known_when_the_log_is_read_again() -> None:
    """A daemon that starts anew, minutes later, opens no incident for a cascade that it knows."""
    story = Story().running()
    story.tell(seen("cuda_oom", ends="rank", fingerprint="v1:cuda_oom"))
    story.tell(seen("nccl_error", ends="rank", family=None, fingerprint="v1:nccl"))
    assert told_of(story.incidents) == {"v1:cuda_oom", "v1:nccl"}
    story.tell(story.exited(1), crash("cuda_oom"))
    assert told_of(story.incidents) == {"v1:cuda_oom", "v1:nccl"}


def test_what_a_run_was_stopped_for_is_what_it_died_of() -> None:
    """Our own signal is no cause: one incident, one alert, and the policy weighs what was found."""
    name = "expectation_failed"
    story = Story(policy(name, stop_on=(name,))).running()
    story.tell(seen(name, ends=None, family=None))
    assert story.actions == [ActionKind.STOP]
    story.tell(story.exited(None, signal=15), crash("interrupted", family=None))
    assert story.state is RunState.BACKOFF
    assert [one.signature for one in story.incidents] == [name]
    assert story.sent == [("firing", name)]


@pytest.mark.parametrize(
    ("name", "outcome"), [("hang", Outcome.HUNG), ("expectation_failed", Outcome.CRASHED)]
)
def test_what_was_stopped_and_ends_with_0_went_no_better(name: str, outcome: Outcome) -> None:
    """A program that takes our signal for a wish to leave: its verdict is not `ok` beside that."""
    story = Story(policy(name, max_attempts=1, stop_on=(name,))).running()
    story.tell(seen(name, ends=None, family=None), story.exited(0), fine())
    verdict = story.view.run.verdict
    assert story.state is RunState.FAILED
    assert verdict is not None
    assert (verdict["verdict"], verdict["signature"]) == (outcome, name)
    assert (verdict["crash"], verdict["ends"]) == (True, "process")
