"""What a cgroup says of memory, on recorded files of both versions."""

from pathlib import Path

from orchestrator.probe.memory import MemoryGroup, own_group

GIB = 1024**3


def write(root: Path, files: dict[str, str]) -> str:
    """A cgroup file system with these files."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(root)


def test_version_2_counts_kills_and_takes_the_lowest_limit(tmp_path: Path) -> None:
    """memory.events of the nearest group that has it; limits hold from every group above."""
    root = write(
        tmp_path,
        {
            "a/b/memory.events": "low 0\nhigh 0\nmax 31\noom 2\noom_kill 2\noom_group_kill 0\n",
            "a/b/memory.max": "max\n",
            "a/memory.max": f"{64 * GIB}\n",
            "a/memory.events": "low 0\nhigh 0\nmax 31\noom 9\noom_kill 9\n",
        },
    )
    group = MemoryGroup("0::/a/b/c\n", root)
    assert (group.oom_kills, group.limit_bytes) == (2, 64 * GIB)


def test_version_1_counts_kills_and_knows_no_limit_from_a_limit(tmp_path: Path) -> None:
    """A namespace hides the path: the mount's top has the files."""
    root = write(
        tmp_path,
        {
            "memory/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
            "memory/memory.limit_in_bytes": "209715200\n",
            "memory/docker/memory.limit_in_bytes": "9223372036854771712\n",
        },
    )
    group = MemoryGroup("9:cpu,cpuacct:/\n8:memory:/docker/0a1b\n0::/init\n", root)
    assert (group.oom_kills, group.limit_bytes) == (3, 209_715_200)


def test_where_no_cgroup_says_anything_nothing_is_claimed(tmp_path: Path) -> None:
    """No file, no memory controller, no text."""
    for text in ("", "0::/\n", "4:cpu:/\n"):
        group = MemoryGroup(text, str(tmp_path))
        assert (group.oom_kills, group.limit_bytes) == (None, None)


def test_the_own_group_can_be_read_here() -> None:
    """It reads the files of this very machine without falling."""
    kills = own_group().oom_kills
    assert kills is None or kills >= 0
