"""Named situations as replay files: what the dashboard is looked at and tested with.

`python -m tests.tui.situations FOLDER` writes them all. Nothing in them is random or depends on
the day.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path

from tests.tui.pieces import (
    DIFF,
    FINDING,
    LOOK,
    NOW,
    SILENCES,
    START_LINES,
    TIMELINE,
    TRACEBACK,
    Line,
    answer,
    begin,
    change,
    ended,
    gpu,
    gpu_history,
    incident,
    log,
    metrics,
    run,
    snapshot,
    step_lines,
    target,
    whole,
)

BUSY_GPUS = [gpu(index, 97 - index, 61.5 + index, "dflash-3") for index in range(4)] + [
    gpu(4, 0, 22.4),
    gpu(5, 0, 0.4),
    gpu(6, 0, 0.4),
    gpu(7, 0, 0.4),
]


def nothing() -> list[Line]:
    """A fresh inventory: a target, no runs."""
    return [begin("none"), whole(snapshot([target(gpus=[gpu(0, 0, 0.4)])], []))]


def healthy() -> list[Line]:
    """One run trains on four of eight GPUs; it goes on for a while when played."""
    text = START_LINES + step_lines(1150, 1240)
    live = run(3, log_bytes=len(text.encode()))
    lines = [
        begin("healthy"),
        log("dflash-3", text),
        answer("/v1/runs/dflash-3/metrics", {"metrics": metrics(1, 1240)}),
        answer("/v1/runs/dflash-3/gpus", {"samples": gpu_history()}),
        answer("/v1/runs/dflash-2/metrics", {"metrics": metrics(1, 400, 1.3)}),
        answer("/v1/runs/dflash-3/timeline", {"run": "dflash-3", "events": TIMELINE}),
        answer("/v1/runs/dflash-3/diff", DIFF),
        answer("/v1/runs/dflash-3/environment", {"run": "dflash-3", "looks": [LOOK]}),
        whole(
            snapshot(
                [target(gpus=BUSY_GPUS), target("ct201", [gpu(0, 0, 0.4), gpu(1, 0, 0.4)])],
                [
                    ended(1, ago=90_000),
                    ended(2, ago=7_200, state="stopped", exit_code=143, verdict=None),
                    live,
                ],
            )
        ),
    ]
    for second in range(1, 61):
        more = step_lines(1240 + second, 1240 + second)
        text += more
        newer = run(
            3,
            step=1240 + second,
            loss=2.9381 - second / 300,
            output_at=NOW + second,
            seen_at=NOW + second,
            log_bytes=len(text.encode()),
        )
        lines += [log("dflash-3", more, t=second), change(second, runs=[newer])]
    return lines


def compiling() -> list[Line]:
    """The first minutes of a run: no step yet, no output for a while, and that is well."""
    text = START_LINES
    live = run(
        3,
        step=None,
        loss=None,
        phase="compile",
        started_at=NOW - 75,
        output_at=NOW - 55,
        metrics={"total_steps": 5000},
        log_bytes=len(text.encode()),
    )
    gpus = [gpu(index, 3, 12.5, "dflash-3") for index in range(4)]
    return [
        begin("compiling"),
        log("dflash-3", text),
        answer("/v1/runs/dflash-3/metrics", {"metrics": []}),
        whole(snapshot([target(gpus=gpus)], [ended(2), live])),
    ]


def stalled() -> list[Line]:
    """A run that says nothing for ten minutes while its GPUs hold memory and compute nothing."""
    text = START_LINES + step_lines(1150, 1240)
    hung = incident(
        "dflash-3",
        ago=300,
        signature="hung",
        severity="warning",
        title="No output for 5 min and the GPUs are idle: it hangs",
        family=None,
        finding={
            "signature": "hung",
            "title": "No output for 5 min and the GPUs are idle: it hangs",
            "exception": None,
            "frame": None,
            "in_app_frame": None,
            "thread": None,
            "rank": None,
            "next_steps": ["Look at its stacks: `orch attach dflash-3`, then py-spy dump."],
            "traceback": "",
            "cause": "Silence and idle GPUs together are no compiling and no checkpoint.",
        },
    )
    live = run(3, output_at=NOW - 610, log_bytes=len(text.encode()), incident=hung["id"])
    gpus = [gpu(index, 0, 61.5, "dflash-3") for index in range(4)]
    return [
        begin("stalled"),
        log("dflash-3", text),
        answer("/v1/runs/dflash-3/metrics", {"metrics": metrics(1, 1240)}),
        whole(snapshot([target(gpus=gpus)], [ended(2), live], [hung])),
    ]


def crash_loop() -> list[Line]:
    """The same race again and again, and what was tried in between."""
    text = START_LINES + step_lines(60, 120) + TRACEBACK
    tried = ["first try", "remove the torch.compile wrapper", "clear the compile cache", "one more"]
    runs = [
        ended(
            number,
            ago=(5 - number) * 900,
            why=why,
            log_bytes=len(text.encode()),
            incident=f"i-{number}7f3k",
        )
        for number, why in enumerate(tried, start=1)
    ]
    found = [
        incident(
            f"dflash-{number}",
            ago=(5 - number) * 900,
            same_as="dflash-1" if number > 1 else None,
            finding={**FINDING, "offset": len((START_LINES + step_lines(60, 120)).encode())},
        )
        for number in range(1, 5)
    ]
    return [
        begin("crash loop"),
        *(log(one["id"], text) for one in runs),
        *(
            answer(
                f"/v1/incidents/{one['id']}/explain",
                {"text": "what died\nwhy it died", "markdown": "# what died"},
            )
            for one in found
        ),
        answer(f"/v1/incidents/{found[-1]['id']}/ack", {**found[-1], "state": "acknowledged"}),
        answer("/v1/silences", {"silences": SILENCES}),
        whole(snapshot([target(gpus=[gpu(n, 0, 0.4) for n in range(8)])], runs, found)),
    ]


def host_lost() -> list[Line]:
    """A host that was not seen for four minutes: its run is not failed, only unseen."""
    text = START_LINES + step_lines(1150, 1240)
    blind: Line = {"link": "unreachable", "seen_at": NOW - 250}
    gpus = [gpu(index, 95, 61.5, "dflash-3") for index in range(4)]
    return [
        begin("host lost"),
        log("dflash-3", text),
        answer("/v1/runs/dflash-3/metrics", {"metrics": metrics(1, 1240)}),
        whole(
            snapshot(
                [
                    target(
                        gpus=gpus,
                        error="ssh pve1: no answer for 20 s; trying again in 16 s",
                        gpus_at=NOW - 250,
                        **blind,
                    ),
                    target("ct201", [gpu(0, 0, 0.4)], host="pve2", watched="shell"),
                ],
                [
                    ended(2),
                    run(3, output_at=NOW - 252, log_bytes=len(text.encode()), **blind),
                ],
            )
        ),
    ]


def two_hundred() -> list[Line]:
    """Two hundred runs of four jobs on ten targets."""
    jobs, runs, found = ("dflash", "eagle", "distil", "probe-sweep"), [], []
    for number in range(1, 201):
        job, place = jobs[number % 4], f"ct{200 + number % 10}"
        if number > 180:
            view = run(number, job, step=number * 31, loss=2 + (number % 17) / 10)
            view["output_at"] = NOW - (number % 5) * 40
        elif number % 3:
            view = ended(number, job, ago=(201 - number) * 1200, state="finished", exit_code=0)
            view |= {"step": 5000, "loss": 2.1 + (number % 13) / 20, "verdict": None}
        else:
            view = ended(number, job, ago=(201 - number) * 1200)
        why = f"sweep {number}: learning rate {number / 1e5:.5f}"
        runs.append({**view, "target": place, "why": why})
        if number in {150, 180}:
            found.append(incident(view["id"], ago=(201 - number) * 1200))
    targets = [
        target(
            f"ct{200 + place}",
            [gpu(n, 90 if n < 6 else 0, 60 if n < 7 else 0.4) for n in range(8)],
            host=f"pve{place // 4 + 1}",
        )
        for place in range(10)
    ]
    return [begin("200 runs"), whole(snapshot(targets, runs, found))]


def gone() -> list[Line]:
    """The daemon ended a minute ago; what was seen last is still there."""
    lines = [line for line in healthy() if line["t"] == 0]
    reason = "No daemon answers at /run/user/1000/orch/1f.sock (Connection refused)."
    return [*lines, {"t": 1, "kind": "gone", "reason": reason}]


def hostile() -> list[Line]:
    """A target that writes what a terminal would obey into everything it can."""
    evil = "\x1b]0;owned\x07\x1b[2J\x1b[31m\x9b31mred\u202eback"
    text = f"plain\n{evil} in the log\n\x1b[?1049h\x07bell\ttab\n"
    live = run(
        3,
        why=f"why {evil}",
        phase=f"train{evil}",
        log_bytes=len(text.encode()),
        target="ct200",
    )
    return [
        begin("hostile"),
        log("dflash-3", text),
        answer("/v1/runs/dflash-3/metrics", {"metrics": []}),
        whole(snapshot([target(gpus=BUSY_GPUS, error=f"no route {evil}")], [live])),
    ]


SITUATIONS: dict[str, Callable[[], list[Line]]] = {
    "none": nothing,
    "healthy": healthy,
    "compiling": compiling,
    "stalled": stalled,
    "crash-loop": crash_loop,
    "host-lost": host_lost,
    "200-runs": two_hundred,
    "gone": gone,
    "hostile": hostile,
}


def write(name: str, folder: Path) -> Path:
    """Write the replay file of a situation."""
    path = folder / f"{name}.jsonl"
    lines = "".join(json.dumps(line) + "\n" for line in SITUATIONS[name]())
    path.write_text(lines, encoding="utf-8")
    return path


if __name__ == "__main__":
    for situation in SITUATIONS:
        print(write(situation, Path(sys.argv[1])))
