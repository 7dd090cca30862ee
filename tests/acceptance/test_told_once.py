"""A finding that an earlier daemon decided on is no new one when the log is read again."""

from functools import partial
from pathlib import Path

from tests.acceptance.conftest import MakeOrch, local_job

DIES_IN_A_THREAD = """
import itertools, threading, time
def draft():
    raise KeyError("labels")
dead = threading.Thread(target=draft, name="draft")
dead.start()
dead.join()
for step in itertools.count():
    print("step", step, flush=True)
    time.sleep(0.1)
"""


def test_a_thread_that_died_is_one_occurrence_for_every_daemon(
    make_orch: MakeOrch, short_folder: Path
) -> None:
    """The next daemons read its last words once more, and count nothing."""
    (short_folder / "dies.py").write_text(DIES_IN_A_THREAD)
    orch = make_orch(local_job(short_folder, f"python3 {short_folder}/dies.py"))
    run = orch.json("run", "--detach")["run"]

    def counts() -> list[int]:
        return [one["occurrences"] for one in orch.json("incidents")["incidents"]]

    def more_than(read: int) -> bool:
        return int(orch.json("show", run)["log_bytes"]) > read

    orch.until(lambda: counts() == [1])
    for _ in range(2):
        orch("daemon", "stop")
        read = orch.json("show", run)["log_bytes"]
        orch.until(partial(more_than, read))
        assert counts() == [1]
    orch("stop", run)
