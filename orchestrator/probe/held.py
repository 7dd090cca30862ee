"""A GPU that is not idle, in words: how much of it is used, and by whom.

Both ends say it: the probe of what a container sees, the daemon once the host has told more.
"""

from .frames import Frame


def held_by(gpu: Frame) -> str:
    """The words for one GPU: `index`, `memory_used_bytes` and `processes`, as of a sample."""
    used = gpu.get("memory_used_bytes") or 0
    names = ", ".join(map(_named, gpu.get("processes") or ())) or "a process not seen from here"
    return f"GPU {gpu['index']} has {used / 1024**2:.0f} MiB in use by {names}"


def _named(holder: Frame) -> str:
    words = [f"PID {holder['pid']}"]
    if holder.get("container"):
        words.append(f"({holder.get('container_pid') or '?'} in container {holder['container']})")
    words += [f"run {holder['run']}"] if holder.get("run") else []
    words += [holder["command"][:80]] if holder.get("command") else []
    return " ".join(words)
