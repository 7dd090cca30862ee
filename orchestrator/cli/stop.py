"""stop: end a run and what is left of it, and say when its GPUs are free."""

import argparse
from collections.abc import Mapping
from typing import Any

from orchestrator.api.client import quoted
from orchestrator.cli import output
from orchestrator.cli.reach import connect
from orchestrator.core.errors import TargetError

DIRECT_GRACE_S = 15.0


def stop(options: argparse.Namespace) -> int:
    """Stop a run; prints how it ended and who still holds its GPUs."""
    if options.target is not None:
        return _direct(options)
    body = {} if options.grace is None else {"grace_s": options.grace}
    client = connect(options)
    ended: list[dict[str, Any]] = []
    for message in client.stream("POST", f"/v1/runs/{quoted(options.run)}/stop", body):
        if message["kind"] == "stopping" and not options.json:
            output.note(f"stopping {message['run']['id']}")
        elif message["kind"] in {"stopped", "kept"}:
            kept = {"kept": True} if message["kind"] == "kept" else {}
            ended.append({**{key: one for key, one in message.items() if key != "kind"}, **kept})
            if not options.json:
                output.say(kept_text(message) if kept else stopped_text(message))
    if options.json:
        ended.sort(key=lambda one: one["run"].get("node", 0))
        output.print_json({**ended[0], **({"nodes": ended} if len(ended) > 1 else {})})
    if any(one.get("kept") for one in ended):
        return TargetError.exit_code
    return 1 if any(one.get("remaining") for one in ended) else 0


def kept_text(message: Mapping[str, Any]) -> str:
    """`run 2 is not stopped yet: ct200 cannot be reached, last seen 40s ago; ...`."""
    run = message["run"]
    seen = output.age(run["seen_at"], output.now()) if run["seen_at"] else "not seen yet"
    since = f"last seen {seen}" if run["seen_at"] else seen
    away = f"{run['target']} cannot be reached, {since}"
    if run["state"] == "stopped":
        left = "what it may have left there is ended once it is back"
        return f"{output.run_name(run)} is stopped; {away}: {left}"
    stays = "the stop is kept, and done once it is back"
    return f"{output.run_name(run)} is not stopped yet: {away}; {stays}"


def _direct(options: argparse.Namespace) -> int:
    """End a run by its session on a target, with no daemon."""
    import asyncio

    from orchestrator.cli import direct
    from orchestrator.cli.targets import target_of

    target = target_of(options, options.target)
    session = direct.on_target(
        target, lambda transport: direct.session_named(transport, target, options.run)
    )
    grace_s = DIRECT_GRACE_S if options.grace is None else options.grace
    answer = asyncio.run(direct.end_run(target, session, grace_s))
    if options.json:
        output.print_json({**answer, "run": session.run})
    else:
        output.say(stopped_text(answer, name=session.run))
    return 1 if answer.get("remaining") else 0


def stopped_text(message: Mapping[str, Any], *, name: str | None = None) -> str:
    """`run 2 stopped, 3 processes ended; GPUs 0-7 free after 3.2 s`, or who holds them."""
    name = name or output.run_name(message["run"])
    if message.get("already"):
        return f"{name} had ended already: {message['run']['state']}"
    ended, remaining = message.get("ended") or [], message.get("remaining") or []
    parts = [f"{name} stopped, {len(ended)} process{'' if len(ended) == 1 else 'es'} ended"]
    if remaining:
        parts.append("still there: " + ", ".join(_holder(one) for one in remaining))
    holders = message.get("gpu_holders") or []
    free_after = message.get("gpus_free_after_s")
    if holders:
        parts.append("GPU memory is still held by " + ", ".join(_holder(one) for one in holders))
    elif free_after is not None:
        gpus = message.get("gpus")
        many = "" if gpus and len(gpus) == 1 else "s"
        named = f"GPU{many} {index_ranges(gpus)}" if gpus else "GPUs"
        parts.append(f"{named} free after {free_after:.1f} s")
    return "; ".join(parts)


def index_ranges(indexes: list[int]) -> str:
    """`0-3,6` for 0, 1, 2, 3, 6."""
    spans: list[list[int]] = []
    for index in sorted(indexes):
        if spans and index == spans[-1][1] + 1:
            spans[-1][1] = index
        else:
            spans.append([index, index])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)


def _holder(one: object) -> str:
    if not isinstance(one, dict):
        return str(one)
    if one.get("gpu") is not None and one.get("pid") is None:
        held = output.size(one.get("memory_bytes"))
        return f"a process not seen from there ({held} of GPU {one['gpu']})"
    words = [f"{key} {one[key]}" for key in ("gpu", "pid") if one.get(key) is not None]
    words += [str(one[key]) for key in ("run", "container", "command") if one.get(key)]
    return " ".join(words)
