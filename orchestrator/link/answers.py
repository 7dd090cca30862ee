"""What each op of a probe answers, by its shape; see frames.py for what it means.

Owns the table, and the refusal of an answer that is not in it. An op without a line here answers
nothing that anybody reads.
"""

from collections.abc import Mapping
from typing import Any

from orchestrator.link.shapes import (
    BYTES,
    COUNT,
    FLAG,
    GPU,
    GPUS,
    KERNEL,
    NUMBER,
    OBJECT,
    READING,
    TEXT,
    WHOLE,
    Each,
    Maybe,
    Shape,
    misfit,
)

_LAUNCHED: Mapping[str, Shape] = {
    "attempt_dir": TEXT,
    "already": FLAG,
    "session": TEXT,
    "pid": WHOLE,
    "started_at": NUMBER,
}
_PROCESS: Mapping[str, Shape] = {
    "pid": Maybe(WHOLE),
    **dict.fromkeys(("rank", "container_pid", "gpu", "memory_bytes"), Maybe(WHOLE)),
    **dict.fromkeys(("command", "state", "wchan", "run", "session", "container"), Maybe(TEXT)),
    **dict.fromkeys(("stacks", "complaint"), Maybe(TEXT)),
    "age_s": Maybe(NUMBER),
    "threads": Maybe([OBJECT]),
}
_COMMAND: Mapping[str, Shape] = {**_PROCESS, "pid": WHOLE, "command": TEXT}
_CHECK: Mapping[str, Shape] = {
    **dict.fromkeys(("name", "text"), TEXT),
    "ok": FLAG,
    "remedy": Maybe(TEXT),
    "critical": Maybe(FLAG),
}
_PROVENANCE: Mapping[str, Shape] = {
    **dict.fromkeys(("by", "commit", "branch", "inventory"), Maybe(TEXT)),
    "dirty": Maybe(FLAG),
    "untracked": Maybe([TEXT]),
    "diff_bytes": Maybe(COUNT),
}
"""It lies in the workdir, where the program may write to it."""
_RELEASE: Mapping[str, Shape] = {
    **dict.fromkeys(("digest", "name"), TEXT),
    "at": NUMBER,
    **dict.fromkeys(("bytes", "files"), COUNT),
    "provenance": Maybe(_PROVENANCE),
}
_LISTED: Mapping[str, Shape] = {**_RELEASE, "in_use": FLAG}
_KEPT: Mapping[str, Shape] = {
    **dict.fromkeys(("name", "how"), TEXT),
    "at": NUMBER,
    **dict.fromkeys(("bytes", "files"), COUNT),
    "made_with": Each(Maybe(TEXT)),
}
_PATH: Mapping[str, Shape] = {
    "kind": TEXT,
    **dict.fromkeys(("mode", "size"), COUNT),
    "stamp": [READING],
}
_ENVIRONMENT: Mapping[str, Shape] = {
    "at": NUMBER,
    "packages": Each({"version": Maybe(TEXT), "from": Maybe(TEXT)}),
    **dict.fromkeys(("python", "executable", "torch", "cuda", "driver"), Maybe(TEXT)),
    **dict.fromkeys(("kernel", "error"), Maybe(TEXT)),
    "gpus": [Maybe(TEXT)],
    "architectures": [TEXT],
    "variables": Each(TEXT),
    "caches": Each(Maybe({"bytes": COUNT, "files": COUNT, "newest_at": Maybe(NUMBER)})),
}
_ANSWERS: Mapping[str, Shape] = {
    "launch": _LAUNCHED,
    "adopt": _LAUNCHED,
    "adopt_look": {**dict.fromkeys(("what", "name", "command", "folder"), TEXT), "pid": WHOLE},
    "end": {
        "ended": [WHOLE],
        "gpus": [WHOLE],
        "remaining": [_COMMAND],
        "gpus_free_after_s": Maybe(NUMBER),
        "gpu_holders": [_PROCESS],
    },
    "end_pid": {"ended": FLAG},
    "read": {"data": TEXT, "size": COUNT},
    "gpus": GPUS,
    "kernel_lines": {"lines": [KERNEL]},
    "activity": {"over_s": NUMBER, "cpu_cores": NUMBER, "processes": [_COMMAND]},
    "dump": {
        "processes": [_COMMAND],
        **dict.fromkeys(("py_spy", "nvidia_smi", "nccl", "machine", "tools"), Maybe(TEXT)),
    },
    "preflight": {"checks": [_CHECK], "versions": Each(Maybe(TEXT)), "held": Maybe([GPU])},
    "sessions": {"sessions": [{"name": TEXT, "dead": FLAG}]},
    "release_commit": {"path": TEXT},
    "release_list": {"current": Maybe(TEXT), "releases": [_LISTED]},
    "release_switch": {
        **dict.fromkeys(("current", "path"), TEXT),
        "before": Maybe(TEXT),
        "release": _RELEASE,
    },
    "release_prune": {"removed": [TEXT], "kept": [TEXT], "environments": [TEXT]},
    "runs_prune": {
        "removed": [{"name": TEXT, "bytes": COUNT}],
        "in_use": [TEXT],
        "sessions": [TEXT],
    },
    "runs_known": {
        "runs": [
            {
                "name": TEXT,
                "attempts": [{"number": COUNT, "attempt": Maybe(OBJECT), "exit": Maybe(OBJECT)}],
            }
        ]
    },
    "runs_highest": {"number": COUNT},
    "environment": _ENVIRONMENT,
    "cache_list": {
        "now": [{**dict.fromkeys(("kind", "path"), TEXT), "bytes": COUNT, "files": COUNT}],
        "saved": [_KEPT],
    },
    "cache_save": {**_KEPT, "dropped": [TEXT]},
    "cache_clear": {**_KEPT, "dropped": [TEXT]},
    "cache_restore": dict.fromkeys(("files", "bytes", "there"), COUNT),
    "copy_hold": {"held": FLAG},
    "copy_look": {
        **_PATH,
        **dict.fromkeys(("path", "part"), TEXT),
        "link": FLAG,
        "part_bytes": COUNT,
    },
    "copy_tree": {"entries": [{**_PATH, "name": TEXT, "to": Maybe(TEXT)}], "more": FLAG},
    "copy_digest": {"sha256": TEXT, "missing": COUNT},
    "copy_read": {"data": BYTES},
}
_OFFER: Mapping[str, Shape] = {
    "missing": [TEXT],
    "current": Maybe(TEXT),
    "exists": FLAG,
    "setup": FLAG,
}
_PROGRESS: Mapping[str, Shape] = {"release_commit": {"stage": TEXT, "line": Maybe(TEXT)}}


def wrong_answer(op: str, value: Any) -> str | None:
    """What of an op's value is not as it has to be; None where all is."""
    if op == "release_offer" and isinstance(value, dict) and value.get("unknown") is True:
        return None
    shape = _OFFER if op == "release_offer" else _ANSWERS.get(op)
    return None if shape is None else misfit(shape, value, "value")


def wrong_progress(op: str, value: Any) -> str | None:
    """Likewise of the news of a call that takes long."""
    shape = _PROGRESS.get(op)
    return None if shape is None else misfit(shape, value, "value")
