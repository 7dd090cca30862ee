"""silence add, ls and expire: alerts that nobody wants to hear for a while."""

import argparse
import math
from collections.abc import Mapping
from typing import Any

from orchestrator.api.client import quoted
from orchestrator.cli import output
from orchestrator.cli.reach import connect
from orchestrator.core.errors import UsageError


def add(options: argparse.Namespace) -> int:
    """Keep back alerts whose labels have these values."""
    if not options.match and not options.everything:
        raise UsageError(
            "This would silence every alert.",
            remedy="Name labels, such as job=dflash, or give --everything.",
        )
    body = {"match": dict(options.match), "for_s": options.duration, "why": options.message}
    return _print(connect(options).call("POST", "/v1/silences", body), options)


def ls(options: argparse.Namespace) -> int:
    """List silences that last; with -a those that are over too."""
    found = connect(options).get("/v1/silences", {"all": 1 if options.all else None})
    if options.json:
        output.print_json(found)
        return 0
    moment = output.now()
    rows = [
        [one["id"] or "inventory", match_text(one), _lasts(one, moment), one["why"]]
        for one in found["silences"]
    ]
    output.say(*output.table(("SILENCE", "MATCH", "LASTS", "WHY"), rows))
    return 0


def expire(options: argparse.Namespace) -> int:
    """End a silence."""
    path = f"/v1/silences/{quoted(options.silence)}/expire"
    return _print(connect(options).call("POST", path, {}), options)


def _print(silence: Mapping[str, Any], options: argparse.Namespace) -> int:
    if options.json:
        output.print_json(silence)
    else:
        lasts = _lasts(silence, output.now())
        output.say(f"silence {silence['id']}: {match_text(silence)}, {lasts}")
    return 0


def match_text(silence: Mapping[str, Any]) -> str:
    """`job=dflash severity=warning`."""
    labels = [f"{name}={value}" for name, value in silence["match"].items()]
    return " ".join(labels) or "everything"


def _lasts(silence: Mapping[str, Any], moment: float) -> str:
    if silence["expired"]:
        return "over"
    if silence["until"] is None:
        return "for good"
    left_s = float(silence["until"] - moment)
    # Whole minutes, begun ones included: what was just said to last 2 h lasts 2h 00m.
    return f"{output.duration(left_s if left_s < 120 else math.ceil(left_s / 60) * 60)} more"
