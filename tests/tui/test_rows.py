"""What the tables say: filters, orders, groups, columns by width, ages, GPUs, tracebacks."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.tui import pieces, situations
from tui import gpus, plot, rows, story
from tui.cells import columns_for
from tui.fleet import Course, Fleet, Sight

NOW = pieces.NOW


def sight_of(name: str) -> Sight:
    """The first sight of a situation."""
    lines = situations.SITUATIONS[name]()
    whole = next(line["snapshot"] for line in lines if line["kind"] == "snapshot")
    return Sight(now=NOW, fleet=Fleet.of(whole), connected=True, told_at=NOW)


def keys(sight: Sight, **how: str) -> list[str]:
    """Keys of the runs' rows."""
    return [row.key for row in rows.run_rows(sight, **how)]


def test_every_word_of_a_filter_must_be_somewhere_in_a_run() -> None:
    """Words are looked for in names, states and whys, in any order, large or small."""
    sight = sight_of("200-runs")
    assert keys(sight, words="SWEEP 8: eagle") == []
    found = keys(sight, words="running ct203")
    assert sorted(found) == ["eagle-193", "probe-sweep-183"]


def test_orders_put_first_what_they_say() -> None:
    """The newest, then trouble, the lowest loss, the longest silent: each first in its order."""
    sight = sight_of("200-runs")
    assert sight.fleet is not None
    runs = sight.fleet.runs
    assert keys(sight)[0] == "dflash-200"
    assert keys(sight, order="trouble")[:2] == ["dflash-180", "distil-150"]
    best = keys(sight, order="loss")
    losses = [runs[key]["loss"] for key in best]
    assert losses == sorted(losses, key=lambda loss: loss or 0)
    silent = [runs[key] for key in keys(sight, order="silent")]
    assert silent[0]["state"] == "running"
    assert silent[0]["output_at"] == NOW - 160


def test_a_loss_that_is_no_number_comes_last() -> None:
    """NaN is neither the lowest loss nor an error."""
    broken = pieces.run(1, loss=float("nan"))
    runs = [broken, pieces.run(2, loss=3.0), pieces.run(3, loss=None)]
    sight = Sight(now=NOW, fleet=Fleet.of(pieces.snapshot([], runs)))  # type: ignore[arg-type]  # as the API gives it
    assert keys(sight, order="loss")[0] == "dflash-2"


def test_groups_have_a_heading_that_counts() -> None:
    """Under a heading for each job stand its runs, and the heading says how many live."""
    found = rows.run_rows(sight_of("200-runs"), group="job")
    headings = [row for row in found if row.heading]
    assert len(headings) == 4
    assert headings[0].cells["heading"].text == "dflash  50 runs, 5 live"
    assert len(found) == 204


@pytest.mark.parametrize("width", [20, 40, 79, 119, 299])
def test_columns_never_take_more_than_there_is(width: int) -> None:
    """On any width the columns fit, and what a run is and how it stands stays."""
    found = rows.run_rows(sight_of("200-runs"))
    chosen = columns_for(rows.RUN_COLUMNS, found, width)
    assert sum(wide + 1 for _, wide in chosen) <= width + 1
    if width >= 79:
        assert {"run", "state", "step", "loss"} <= {column.name for column, _ in chosen}


@pytest.mark.parametrize(
    ("ago", "said", "kind"), [(3, "3s", "good"), (40, "40s", "warn"), (200, "3m!", "bad")]
)
def test_the_age_of_a_live_runs_output_ages_visibly(ago: float, said: str, kind: str) -> None:
    """Young is good, half a minute is old, two minutes is too old: in words and in kind."""
    cell = rows.output_age(pieces.run(3, output_at=NOW - ago), NOW)  # type: ignore[arg-type]  # as the API gives it
    assert (cell.text, cell.kind) == (said, kind)


def test_a_run_on_a_host_that_is_not_seen_is_blind_and_not_silent() -> None:
    """Not seeing is told as such, with the age of the last sight."""
    run = pieces.run(3, link="unreachable", seen_at=NOW - 250, output_at=NOW - 900)
    assert rows.output_age(run, NOW).text == "blind 4m"  # type: ignore[arg-type]  # as the API gives it


def test_memory_that_is_held_by_an_idle_gpu_is_wasted() -> None:
    """Busy, idle and wasted are told apart by use and memory together."""
    words = [gpus.gpu_word(pieces.gpu(0, use, used)) for use, used in ((90, 60), (0, 0.4), (0, 20))]
    assert words == ["busy", "idle", "wasted"]


def test_a_program_of_a_run_that_has_ended_is_left_over() -> None:
    """The GPU screen says which programs should not be there any more."""
    runs = [pieces.ended(2)]
    targets = [pieces.target(gpus=[pieces.gpu(0, 0, 20, "dflash-2")])]
    sight = Sight(now=NOW, fleet=Fleet.of(pieces.snapshot(targets, runs)))  # type: ignore[arg-type]  # as the API gives it
    (_, row) = gpus.gpu_rows(sight)
    assert "left over: the run is failed" in row.cells["owner"].text


def test_a_card_that_two_targets_see_has_one_row() -> None:
    """Containers of one host are often given the same GPUs; the second heading says so."""
    same = [pieces.gpu(0, 90, 20, "dflash-2")]
    one = pieces.target(gpus=same)
    targets = [one, {**one, "name": "twin"}]
    sight = Sight(now=NOW, fleet=Fleet.of(pieces.snapshot(targets, [])))  # type: ignore[arg-type]  # as the API gives it
    _, _, heading = gpus.gpu_rows(sight)
    assert heading.heading
    assert "GPU 0 is shared with" in heading.cells["heading"].text


def test_the_users_own_frames_come_first_and_innermost() -> None:
    """Of a traceback through libraries, only the user's frames are told, the last call first."""
    told = [cell.text for cell in story.user_frames(pieces.TRACEBACK)]
    assert told == [
        "/srv/dflash/releases/4be1d0/trainer/dflash_model.py:88 in forward",
        "    return self.block(x, mask)",
        "/srv/dflash/releases/4be1d0/trainer/draft_pool.py:51 in draft",
        "    logits = self.drafter(hidden)",
    ]


def test_an_incident_says_what_was_tried_before() -> None:
    """The runs that crashed alike are listed with what each of them tried."""
    sight = sight_of("crash-loop")
    assert sight.fleet is not None
    incident = sight.fleet.open_incidents()[0]
    told = {one.title: one for one in story.story(incident, sight.fleet, NOW)}
    lines = [cell.text for cell in told["tried, and crashed alike"].lines]
    assert lines[0] == "same as run 1: not a fix"
    assert lines[2] == "dflash-2, 45m ago: remove the torch.compile wrapper"


def test_what_somebody_has_taken_note_of_is_no_alarm() -> None:
    """An acknowledged incident is counted and marked apart from open ones."""
    sight = sight_of("crash-loop")
    fleet = sight.fleet
    assert fleet is not None
    first = fleet.open_incidents()[0]
    known = replace(
        fleet, incidents={**fleet.incidents, first["id"]: {**first, "state": "acknowledged"}}
    )
    count = len(fleet.open_incidents()) - 1
    told = [cell.text for cell in rows.summary(replace(sight, fleet=known))]
    assert "✓ 1 acknowledged" in told
    assert [one for one in told if "open incident" in one] == (
        [f"! {count} open incident{'' if count == 1 else 's'}"] if count else []
    )
    badge = rows.run_cells(fleet.runs[first["run"]], sight, known)["badge"]
    assert (badge.text, badge.kind) == ("✓", "muted")


def test_speed_and_time_left_come_from_the_steps_where_the_program_tells_none() -> None:
    """Steps that went by give the speed; with a known last step, the time left."""
    course = Course()
    for second in range(11):
        course.note(pieces.run(3, step=100 + 2 * second, output_at=NOW + second))  # type: ignore[arg-type]  # as the API gives it
    run: Any = pieces.run(3, step=120, metrics={"total_steps": 160})
    assert rows.speed_of(run, course) == "2 st/s"
    assert rows.eta_of(run, course) == 20.0


def test_a_course_goes_on_after_what_the_daemon_stored_and_begins_anew_after_a_checkpoint() -> None:
    """Older losses go in front, none twice; a step that went back drops what came after it."""
    course = Course()
    course.note(pieces.run(3, step=10, loss=2.0))  # type: ignore[arg-type]  # as the API gives it
    course.backfill([{"step": step, "loss": 3.0} for step in range(1, 12)])
    assert [step for step, _ in course.losses] == list(range(1, 11))
    course.note(pieces.run(3, step=5, loss=2.5))  # type: ignore[arg-type]  # as the API gives it
    assert [step for step, _ in course.losses] == [5]


def test_a_plot_keeps_a_spike_however_long_the_course() -> None:
    """One high value among ten thousand is still a dot at the top."""
    points = [(float(step), 9.0 if step == 5000 else 1.0) for step in range(10_000)]
    picture = plot.plot("loss", points, 60, 5)
    lines = ["".join(cell.text for cell in row) for row in picture]
    assert any("\u2801" <= mark <= "\u28ff" for mark in lines[1])
    assert lines[0] == "loss 1"
    assert [len(line) for line in lines[1:]] == [60] * 5


def test_two_courses_share_one_scale_and_are_told_apart() -> None:
    """The other run is drawn behind, in another kind, and named with its newest value."""
    mine = [(float(step), 1.0) for step in range(50)]
    other = [(float(step), 3.0) for step in range(100)]
    head, *rows = plot.plot("loss", mine, 60, 4, across="step", beside=("dflash-2", other))
    told = ["loss 1", "  beside dflash-2 3", "  step 0 to 49"]
    assert [cell.text for cell in head] == told
    assert {cell.kind for cell in rows[0][1:] if cell.text.strip()} == {"warn"}
    assert {cell.kind for cell in rows[-1][1:] if cell.text.strip()} == {"busy"}


def test_replays_are_json_lines_that_begin_with_begin(replays: Path) -> None:
    """Every situation is a replay file that the dashboard can play."""
    for name in situations.SITUATIONS:
        lines = (replays / f"{name}.jsonl").read_text().splitlines()
        assert json.loads(lines[0])["kind"] == "begin"


def test_a_gpu_that_two_containers_show_is_counted_once() -> None:
    """Containers of one host see the same cards; who still sees one says what it does."""
    cards = [pieces.gpu(0, 90, 60), pieces.gpu(1, 0, 0.4)]
    seen = pieces.target("ct200", gpus=cards)
    lost = {**pieces.target("ct201", link="unreachable"), "gpus": seen["gpus"]}
    cells = gpus.gpu_summary([seen, lost])  # type: ignore[list-item]  # as the API gives it
    assert [cell.text for cell in cells] == ["2 GPUs", "1 busy", "1 idle"]


def test_a_link_that_is_well_shows_no_age() -> None:
    """The dashboard is not told of each sign of life; an age means that none comes any more."""
    well = pieces.target("ct200", seen_at=NOW - 40)
    lost = pieces.target("ct201", link="unreachable", seen_at=NOW - 40)
    fleet = Fleet.of(pieces.snapshot([well, lost], []))  # type: ignore[arg-type]  # as the API gives it
    told, alone = (Sight(now=NOW, fleet=fleet, connected=heard) for heard in (True, False))
    assert [row.cells["seen"].text for row in gpus.target_rows(told)] == ["now", "40s"]
    assert [row.cells["seen"].text for row in gpus.target_rows(alone)] == ["40s", "40s"]
