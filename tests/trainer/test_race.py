"""The FX-tracing race: reproduced on a CPU, its remedies, and its absence from the trainer."""

import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from tests.trainer.conftest import Ended, clean_env
from trainer.race.locks import FirstCallLock, ReadersWriterLock

# Each of these starts interpreters that load torch: seconds alone, a minute on a busy machine.
pytestmark = pytest.mark.timeout(300)


def reproduce(form: str, remedy: str) -> subprocess.CompletedProcess[str]:
    """Run the reproduction in a process of its own."""
    argv = [sys.executable, "-m", "trainer.race.reproduce", form, "--remedy", remedy]
    return subprocess.run(
        argv, env=clean_env(), capture_output=True, text=True, timeout=240, check=False
    )


@pytest.mark.parametrize("form", ["make-fx", "stuck"])
def test_race_is_reproduced_every_time(form: str) -> None:
    """A compiled call in one thread fails while another one is parked inside a trace."""
    done = reproduce(form, "none")
    assert done.returncode == 3, done.stdout + done.stderr
    assert "using FX to symbolically trace a dynamo-optimized function" in done.stdout


@pytest.mark.parametrize("form", ["make-fx", "stuck"])
def test_race_message_is_gone_with_the_thread_local_flag(form: str) -> None:
    """With the flag of its own for each thread, the same schedule is clean."""
    done = reproduce(form, "thread-local-flag")
    assert done.returncode == 0, done.stdout + done.stderr


def test_race_layout_runs_its_threads_under_the_rwlock(trainer: Callable[..., Ended]) -> None:
    """Two drafters as threads, cold, a late shape: alone for new keys, they come through."""
    ended = trainer(
        "--layout", "threads-naive", "--race-remedy", "rwlock", "--race-threads", "2",
        "--set", "total_steps=2",
    )  # fmt: skip
    assert ended.code == 0, ended.err
    assert "[drafter 0] step 2/2" in ended.out
    assert "[drafter 1] step 2/2" in ended.out
    assert "context 768" in ended.out


def test_race_layout_counts_attention_that_ran_uncompiled_as_a_death() -> None:
    """Past the graphs that are allowed of one function it is dense, silent and beyond any lock."""
    code = (
        "import trainer.race.naive as naive\n"
        "naive.GRAPHS = 1\n"
        "plan = naive.Plan(\n"
        "    threads=1, steps=2, remedy='rwlock', compiled=True, cuda=False, seed=1)\n"
        "print(naive.run(plan))"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], env=clean_env(), capture_output=True,
        text=True, timeout=240, check=True,
    )  # fmt: skip
    assert "flex attention ran uncompiled (dense)" in done.stdout.splitlines()[-1]


def test_race_help_says_what_to_expect() -> None:
    """--help gives each remedy's measured rate."""
    argv = [sys.executable, "-m", "trainer", "--help"]
    done = subprocess.run(
        argv, env=clean_env(), capture_output=True, text=True, timeout=240, check=True
    )
    assert "rwlock none" in " ".join(done.stdout.split())


def test_race_folder_is_not_imported_by_the_default_layout() -> None:
    """A normal run loads nothing of trainer.race."""
    code = (
        "import sys\nimport trainer.train\n"
        "sys.exit(any(name.startswith('trainer.race') for name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], env=clean_env(), timeout=240, check=False)
    assert done.returncode == 0


def test_race_writer_runs_alone_and_readers_together() -> None:
    """An unseen key excludes everybody; two seen ones are inside at the same time."""
    lock = ReadersWriterLock()
    inside = threading.Barrier(2)
    log: list[str] = []

    def write(key: str) -> None:
        with lock.step(key):
            log.append(f"in {key}")
            log.append(f"out {key}")

    def read() -> None:
        with lock.step("a"):
            inside.wait(20)

    writers = [threading.Thread(target=write, args=(key,)) for key in ("a", "b", "c")]
    for thread in writers:
        thread.start()
    for thread in writers:
        thread.join()
    assert [log[i][3:] for i in (0, 2, 4)] == [log[i][4:] for i in (1, 3, 5)]
    readers = [threading.Thread(target=read) for _ in range(2)]
    for thread in readers:
        thread.start()
    for thread in readers:
        thread.join(20)
        assert not thread.is_alive()


def test_race_first_call_lock_lets_a_seen_key_run_beside_a_first_call() -> None:
    """What makes it no remedy: a steady thread runs while another one compiles."""
    lock = FirstCallLock()
    seen, started, ran = threading.Event(), threading.Event(), threading.Event()

    def steady() -> None:
        with lock.step("a"):
            pass
        seen.set()
        started.wait(20)
        with lock.step("a"):
            ran.set()

    thread = threading.Thread(target=steady)
    thread.start()
    assert seen.wait(20)
    with lock.step("b"):
        started.set()
        assert ran.wait(20)
    thread.join(20)
