"""What is said of an incident, from a story made by hand."""

from dataclasses import replace
from typing import Any

from orchestrator.core.explain import Change, Occurrence, Story, explain, markdown, text
from orchestrator.core.model import (
    RESTART,
    Attempt,
    Incident,
    IncidentState,
    Run,
    RunState,
    Severity,
)

TRACEBACK = """\
Traceback (most recent call last):
  File "/srv/orch/dflash/releases/4be1d0aa/trainer/dflash_model.py", line 88, in forward
    hidden = self.model(tokens)
  File "/opt/venv/lib/python3.11/site-packages/torch/fx/_symbolic_trace.py", line 807, in trace
    raise RuntimeError(
RuntimeError: Detected that you are using FX"""
APP = "/srv/orch/dflash/releases/4be1d0aa/trainer/dflash_model.py"
FINDING: dict[str, Any] = {
    "exception": {"type": "RuntimeError", "message": "Detected that you are using FX"},
    "root_exception": None,
    "frame": {"file": "/opt/venv/torch/_symbolic_trace.py", "line": 807, "function": "trace"},
    "in_app_frame": {"file": APP, "line": 88, "function": "forward"},
    "thread": "Thread-3 (draft)",
    "rank": None,
    "ends": "thread",
    "line": 212,
    "cause": "Two threads traced at once. The flag is one for the process.",
    "next_steps": ["Compile first.", "Then start threads."],
    "evidence": ["212: Exception in thread Thread-3 (draft):"],
    "traceback": TRACEBACK,
}


def run(number: int, **changes: Any) -> Run:
    """Run N of dflash, which lived for ten minutes and failed."""
    began = 1_000_000.0 + 3600 * number
    made = Run(
        id=f"dflash-{number}",
        uid="u",
        job="dflash",
        target="ct200",
        number=number,
        state=RunState.FAILED,
        attempt=1,
        session="dflash",
        directory="/srv/orch/dflash/runs/x",
        created_at=began - 1,
        started_at=began,
        ended_at=began + 600,
        exit_code=1,
        step=120,
    )
    return replace(made, **changes)


def incident(number: int, **changes: Any) -> Incident:
    """What run N died of."""
    made = Incident(
        id=f"i{number}",
        run=f"dflash-{number}",
        attempt=1,
        fingerprint="v1:aa",
        family="compile_thread_race",
        signature="fx_trace_race",
        severity=Severity.CRITICAL,
        title="torch.compile race",
        state=IncidentState.OPEN,
        opened_at=1_000_000.0 + 3600 * number + 590,
        updated_at=0.0,
        finding=FINDING,
    )
    return replace(made, **changes)


def story(**changes: Any) -> Story:
    """Run 5 died as run 2 did; in between one finished, and one died of something else."""
    finished = run(1, state=RunState.FINISHED, exit_code=0, step=9000)
    oom = incident(4, fingerprint="v1:bb", family="cuda_oom", signature="cuda_oom")
    face = incident(3, fingerprint="v1:cc", signature="segfault")
    made = Story(
        run=run(5, why="a lock around first calls"),
        incident=incident(5),
        earlier=(
            Occurrence(run=finished, incident=None),
            Occurrence(run=run(2, why="baseline"), incident=incident(2)),
            Occurrence(run=run(3, why="remove the wrapper"), incident=face),
            Occurrence(run=run(4, why="warm-up on one GPU"), incident=oom),
        ),
        good=finished,
        later=None,
        changes=(
            Change(kind="environment", name="triton", text="triton 3.6 -> 3.5"),
            Change(kind="code", name="a.py", text="a.py changed (+3 -1)"),
            Change(kind="cache", name="/c", text="/c 4.1 GB -> 0 B", alarming=True),
        ),
    )
    return replace(made, **changes)


def test_where_is_the_users_own_line() -> None:
    """The user's code is named as the package has it, with its source; torch's comes after."""
    said = explain(story())
    assert said["where"] == {
        "file": "trainer/dflash_model.py",
        "path": APP,
        "line": 88,
        "function": "forward",
        "source": "hidden = self.model(tokens)",
    }
    assert said["inside"]["function"] == "trace"


def test_source_of_a_rank_is_shown_without_its_tag() -> None:
    """torch puts `[rank5]: ` before each line of a stack; that is none of the program."""
    tagged = "\n".join(f"[rank5]: {line}" for line in FINDING["traceback"].splitlines())
    said = explain(story(incident=incident(5, finding={**FINDING, "traceback": tagged})))
    assert said["where"]["source"] == "hidden = self.model(tokens)"


def test_end_that_no_daemon_saw_is_told_by_its_own_time() -> None:
    """A daemon that comes back an hour later opens the incident then; the run died before."""
    died = incident(5, finding={**FINDING, "ends": "process"})
    ended = replace(story().run, ended_at=died.opened_at - 3600, incident=died.id)
    said = explain(story(run=ended, incident=died))
    assert said["died"]["at"] == died.opened_at - 3600
    assert said["died"]["at"] == ended.ended_at


def test_what_was_tried_and_what_became_of_it() -> None:
    """Each run since the first occurrence has its -m text and its end; another face is no fix."""
    said = explain(story())
    assert [one["number"] for one in said["seen_before"]] == [2, 3]
    assert [(one["why"], one["became"]) for one in said["tried"]] == [
        ("baseline", "died of this after 10 min"),
        (
            "remove the wrapper",
            "died of the same fault, seen as segfault, after 10 min: not a fix",
        ),
        ("warm-up on one GPU", "died of something else after 10 min: cuda_oom"),
    ]


def test_alarming_changes_come_first_and_code_before_environment() -> None:
    """A cleared cache is said first, marked."""
    shown = text(explain(story()))
    changed = shown.partition("Changed since run 1, the last good one")[2].splitlines()[1:4]
    assert changed == [
        "  ! /c 4.1 GB -> 0 B",
        "  code: a.py changed (+3 -1)",
        "  environment: triton 3.6 -> 3.5",
    ]


def test_nothing_changed_is_said_too() -> None:
    """With nothing different, it is said so, by run; what could not be compared is never hidden."""
    shown = text(explain(story(changes=())))
    assert "Nothing changed since run 1, the last good one" in shown
    assert "same code, same configuration, same environment, same caches" in shown
    blind = text(explain(story(changes=(), unknown=("environment: not noted for run 1",))))
    assert "Nothing is known to have changed since run 1" in blind
    assert "not known: environment: not noted for run 1" in blind
    first = text(explain(story(good=None, changes=())))
    assert "no run of this job had finished before, so" in first


def test_text_says_who_died_and_when() -> None:
    """Time, time since the start, step, thread, and that the process still lives where it does."""
    alive = story(run=run(5, state=RunState.RUNNING, ended_at=None, exit_code=None))
    assert text(explain(alive)).splitlines()[1] == (
        "  died    1970-01-12 18:56:30 UTC, 10 min after its start, at step 120: "
        "Thread-3 (draft); the process still lives"
    )
    assert "the process ended with exit code 1" in text(explain(story()))
    assert "Seen before 2 times, first in run 2" in text(explain(story()))


def test_two_python_errors_are_not_the_same_for_their_name() -> None:
    """A family that is only the signature's name joins nothing; the fingerprint does."""
    other = incident(2, fingerprint="v1:zz", family="python_error", signature="python_error")
    mine = incident(5, family="python_error", signature="python_error")
    said = explain(
        story(incident=mine, earlier=(Occurrence(run=run(2), incident=other),), good=None)
    )
    assert (said["seen_before"], said["tried"]) == ([], [])


def test_markdown_cannot_be_broken_by_the_traceback() -> None:
    """A traceback that holds a fence gets a longer one; names with stars stay as they are."""
    finding = {**FINDING, "traceback": "```\n# not a heading\n```", "thread": "**bold**"}
    page = markdown(explain(story(incident=incident(5, finding=finding))))
    assert "````text\n```\n# not a heading\n```\n````" in page
    assert "`1970-01-12" in page
    assert page.startswith("### run 5 of dflash: torch.compile race\n")


def test_evidence_is_found_again_by_its_line() -> None:
    """The command that prints the log around the evidence stands below it, in both forms."""
    said = explain(story())
    line = said["log"]["line"]
    around = f"--raw | sed -n '{line - 10},{line + 10}p;{line + 10}q'"
    assert around in text(said)
    assert around in markdown(said)
    assert [one.split(":")[0] for one in said["evidence"]] == [str(line)]


def test_what_is_wrong_with_a_run_that_lives_is_no_death() -> None:
    """A hang, a straggler: nothing has ended."""
    living = run(5, state=RunState.RUNNING, exit_code=None, ended_at=None)
    hang = incident(5, signature="hang", title="The run hangs", finding={**FINDING, "ends": None})
    shown = text(explain(story(run=living, incident=hang)))
    assert "nothing has died, the run goes on" in shown
    assert "died " not in shown.split("Why:")[0].replace("has died", "")


def test_what_stop_on_ended_is_not_called_a_signal() -> None:
    """Orch itself sent the signal, since the job's stop_on asked for it."""
    stopped = run(5, state=RunState.FAILED, exit_code=None, signal=15)
    shown = text(explain(story(run=stopped, stop_reason="stop_on")))
    assert "orch ended the run then, as its `stop_on` asks" in shown
    assert "signal 15" not in shown


def test_a_thread_that_a_finished_run_outlived_is_told_without_the_runs_last_step() -> None:
    """The run counted on for long after the thread's death: its step is not that of the death."""
    shown = text(explain(story(run=run(5, state=RunState.FINISHED, exit_code=0, step=9000))))
    assert "Thread-3 (draft); the process ended with exit code 0\n" in shown
    assert "at step" not in shown


def test_broken_expectation_of_a_finished_run_names_its_step_and_no_death() -> None:
    """The run did not die; the rule, the value and the step of then are told."""
    told = "step>=2: loss<6: loss is 7.5 at step 4"
    broken = incident(
        5,
        signature="expectation_failed",
        title="The run is not as expected",
        finding={**FINDING, "ends": None, "text": told},
    )
    shown = text(explain(story(run=run(5, state=RunState.FINISHED, exit_code=0), incident=broken)))
    facts = shown.split("Why:")[0]
    assert "nothing died, the run finished" in facts
    assert "\n  died" not in facts
    assert f"  broken  {told}\n" in facts


def test_a_run_that_finished_afterwards_is_told_where_none_had_before() -> None:
    """It is no good one to compare with, and nobody says that there is none at all."""
    later = run(6, state=RunState.FINISHED, exit_code=0)
    said = explain(story(good=None, earlier=(), changes=(), later=later))
    assert said["finished_later"]["number"] == 6
    assert "no run of this job had finished before (run 6 did, after it)" in text(said)
    never = text(explain(story(good=None, earlier=(), changes=())))
    assert "no run of this job had finished before, so" in never


def attempt(number: int, **changes: Any) -> Attempt:
    """Attempt N of run 5, a minute long, which ended with code 1."""
    began = 1_018_000.0 + 100 * number
    made = Attempt(
        number=number,
        directory=f"/a/{number}",
        started_at=began,
        ended_at=began + 60,
        exit_code=1,
    )
    return replace(made, **changes)


def restarted(**changes: Any) -> Story:
    """Run 5 died in attempts 1 and 2 and finished in attempt 3, at another step."""
    three = (attempt(1), attempt(2), attempt(3, exit_code=0))
    recovered = run(
        5,
        state=RunState.FINISHED,
        attempt=3,
        exit_code=0,
        started_at=three[2].started_at,
        ended_at=three[2].ended_at,
    )
    over = incident(
        5,
        attempt=2,
        opened_at=1_018_159.0,
        updated_at=1_018_361.0,
        resolved_at=1_018_361.0,
        state=IncidentState.RESOLVED,
        occurrences=2,
        finding={**FINDING, "ends": "process", "thread": None},
    )
    return story(**{"run": recovered, "incident": over, "attempts": three, **changes})


def test_end_of_an_attempt_is_told_with_its_own_numbers_and_what_followed() -> None:
    """Code, time and attempt are those of the evidence; the later attempts and the end are said."""
    said = explain(restarted())
    died = said["died"]
    assert (died["attempt"], died["exit_code"], died["state"]) == (2, 1, "failed")
    assert (died["at"], died["after_s"]) == (1_018_260.0, 60.0)
    assert (died["step"], died["loss"]) == (None, None)
    assert died["attempt"] == said["log"]["attempt"]
    assert (said["state"], said["run_state"]) == ("resolved", "finished")
    assert [one["exit_code"] for one in said["attempts"]] == [1, 1, 0]
    shown = text(said)
    assert ", 60 s after the start of attempt 2: the process; it ended with exit code 1\n" in shown
    assert "  state   resolved 1970-01-12 18:52:41 UTC, seen 2 times in this run\n" in shown
    assert (
        "Attempts; the run finished:\n"
        "  attempt 1: ended with exit code 1 after 60 s\n"
        "  attempt 2 (told here): ended with exit code 1 after 60 s\n"
        "  attempt 3: ended with exit code 0 after 60 s\n"
    ) in shown


def test_restart_that_is_past_is_not_promised_again() -> None:
    """Once the next attempt began, or a person stopped the run, nothing is about to start."""
    soon = {RESTART: {"said": "attempt 2 of 3 starts in 5 s", "at": 1.0}}
    only = (attempt(1),)
    first = incident(5, opened_at=1_018_160.0)
    waits = run(5, state=RunState.BACKOFF, verdict=soon, incident=first.id)
    told = restarted(run=waits, incident=first, attempts=only)
    assert explain(told)["restart"] == "attempt 2 of 3 starts in 5 s"
    assert explain(told)["died"]["state"] == "failed"
    stopped = replace(waits, state=RunState.STOPPED)
    assert explain(restarted(run=stopped, incident=first, attempts=only))["restart"] == ""
    begun = replace(waits, state=RunState.RUNNING, attempt=2)
    both = (attempt(1), attempt(2, ended_at=None, exit_code=None))
    again = explain(restarted(run=begun, incident=first, attempts=both))
    assert (again["restart"], again["died"]["state"]) == ("", "failed")
    assert "attempt 2: running" in text(again)


def test_standing_of_an_incident_is_said() -> None:
    """Open and acknowledged ones say since when."""
    at = "1970-01-12 18:56:30 UTC"
    assert f"  state   open since {at}\n" in text(explain(story()))
    known = incident(5, state=IncidentState.ACKNOWLEDGED)
    assert f"  state   acknowledged, open since {at}\n" in text(explain(story(incident=known)))
