"""What the daemon says while it does something, in words: plans, progress, checks, ends. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from tui import text
from tui.cells import Cell

MAX_PATHS = 12


def plan_lines(plan: Mapping[str, Any]) -> list[Cell]:
    """What a deploy would do on one target."""
    head = f"{plan['job']} to {plan['target']}: release {plan['release'][:8]}"
    if plan.get("current") == plan["release"] and not plan["files_to_send"]:
        return [Cell(text.harmless(f"{head} is there already"), "good")]
    lines = [Cell(text.harmless(head), "strong")]
    size = text.size(plan["bytes_to_send"])
    sent, same = plan["files_to_send"], plan["files_unchanged"]
    lines.append(Cell(f"{sent} of {plan['files']} files to send, {size}; {same} unchanged"))
    paths = [text.harmless(str(path)) for path in plan.get("paths") or ()]
    lines += [Cell(f"  {path}", "muted") for path in paths[:MAX_PATHS]]
    if len(paths) > MAX_PATHS:
        lines.append(Cell(f"  and {len(paths) - MAX_PATHS} more", "muted"))
    if plan.get("setup"):
        lines.append(Cell("its environment is set up anew", "warn"))
    return lines


def message_lines(message: Mapping[str, Any]) -> list[Cell]:
    """A message of a stream, where it is worth lines of its own; progress is `progress_text`'s."""
    match message["kind"]:
        case "plan":
            return plan_lines(message["plan"])
        case "setup":
            return [Cell(text.harmless(f"setup: {message['line']}"), "muted")]
        case "deployed":
            release = str(message["release"])[:8]
            said = f"deployed {release} to {message['target']} in {message['seconds']:.1f} s"
            return [Cell(text.harmless(said), "good")]
        case "preflight":
            return [line for check in message["checks"] for line in check_lines(check)]
        case "warning":
            return [Cell(text.harmless(message["text"]), "warn")]
        case "stopping":
            return [Cell(text.harmless(f"stopping {message['run']['id']}"), "busy")]
        case "stopped" | "ended":
            return end_lines(message)
        case "kept":
            said = f"{message['run']['target']} cannot be reached: ended there once it is back"
            return [Cell(text.harmless(said), "warn")]
        case "stored":
            return [Cell(text.harmless(f"stored as {message['run']['id']}"), "muted")]
        case _:
            return []


def progress_text(message: Mapping[str, Any]) -> str:
    """`sending 1.2 MiB of 3.4 MiB`, or nothing where it is no progress."""
    if message["kind"] != "progress":
        return ""
    stage = {"verify": "verifying", "setup": "setting up"}.get(message.get("stage", ""), "sending")
    return f"{stage} {text.size(message['sent_bytes'])} of {text.size(message['total_bytes'])}"


def check_lines(check: Mapping[str, Any]) -> list[Cell]:
    """A check of preflight, and what to do about it."""
    if check["ok"]:
        return [Cell(text.harmless(f"✓ {check['name']}: {check['text']}"), "good")]
    shape, kind = ("✗", "bad") if check.get("critical") else ("!", "warn")
    lines = [Cell(text.harmless(f"{shape} {check['name']}: {check['text']}"), kind)]
    if check.get("remedy"):
        lines.append(Cell(text.harmless(f"  {check['remedy']}"), "strong"))
    return lines


def end_lines(message: Mapping[str, Any]) -> list[Cell]:
    """What a stop ended, and who holds the GPUs now."""
    if message.get("already"):
        return [Cell(f"it had ended already: {message['run']['state']}", "muted")]
    count = len(message.get("ended") or ())
    lines = [Cell(f"{count} program{'' if count == 1 else 's'} ended", "good")]
    lines += [
        Cell(f"still there: {_program(one)}", "bad") for one in message.get("remaining") or ()
    ]
    after, holders = message.get("gpus_free_after_s"), message.get("gpu_holders") or ()
    lines += [Cell(f"GPU memory is still held by {_program(one)}", "bad") for one in holders]
    if after is not None and not holders:
        names = gpu_names(message.get("gpus") or ())
        lines.append(Cell(f"{names} free after {after:.1f} s", "good"))
    return lines


def gpu_names(indexes: Sequence[int]) -> str:
    """`GPUs 0-7`, `GPU 3`, `GPUs 0-1,4`."""
    parts: list[list[int]] = []
    for index in sorted(indexes):
        if parts and index == parts[-1][-1] + 1:
            parts[-1].append(index)
        else:
            parts.append([index])
    told = ",".join(str(one[0]) if len(one) == 1 else f"{one[0]}-{one[-1]}" for one in parts)
    return f"GPU{'' if len(indexes) == 1 else 's'} {told}" if told else "the GPUs are"


def _program(one: object) -> str:
    if not isinstance(one, Mapping):
        return f"process {one}"
    said = [f"{key} {one[key]}" for key in ("gpu", "pid") if one.get(key) is not None]
    said += [str(one[key]) for key in ("run", "container", "command") if one.get(key)]
    return text.harmless(" ".join(said))
