"""Several processes: the same losses as one, the first death ends all, features in bounds."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.trainer.conftest import ROOT, SMALL, TINY, Ended, clean_env
from trainer.config import Config, ConfigError, LayoutConfig
from trainer.configfile import load
from trainer.crew import Crew, PeerLostError, Place
from trainer.launch import needed
from trainer.ring import Ring, RingError
from trainer.schedule import better_split, schedule
from trainer.wire import Receiver, Wire

Trainer = Callable[..., Ended]
pytestmark = pytest.mark.timeout(700)
CPU = torch.device("cpu")


def losses(folder: Path) -> list[float]:
    """The losses of a run, step by step."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [line["loss"] for line in lines if "loss" in line]


def settings(*words: str) -> list[str]:
    """As `--set` arguments."""
    return [word for setting in words for word in ("--set", setting)]


def test_layout_of_processes_has_the_losses_of_one(trainer: Trainer, tmp_path: Path) -> None:
    """Three drafters, compiled from cold caches, fed by a target, train as one process does.

    Evaluation's shape, another one than training's, comes up late: after two steps. The
    held-out documents' features go through the same rings.
    """
    few = ("total_steps=4", "eval_every=2", "optim.rows=1")
    one, four = tmp_path / "one", tmp_path / "four"
    alone = trainer(*settings(*few, "optim.accumulate=3"), env={"ORCH_RUN_DIR": str(one)})
    assert alone.code == 0, alone.err
    split = ("layout.targets=1", "layout.drafters=3", "layout.slots=1", "compile=aot_eager")
    caches = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cold")}
    apart = trainer(*settings(*few, *split), env={"ORCH_RUN_DIR": str(four), **caches})
    assert apart.code == 0, apart.err
    assert "phase compile" in apart.out
    assert len(losses(four)) == 4, "one process writes the lines of all"
    assert losses(one) == pytest.approx(losses(four), rel=1e-4)
    acceptance = [re.findall(r"acceptance (\d+\.\d+)", end.out) for end in (alone, apart)]
    assert acceptance[0] == acceptance[1]
    assert re.search(r"idle: targets \d+%, drafters \d+% \(1 \+ 3; balanced would be", apart.out)


def test_layout_shares_muons_work_and_has_the_losses_of_one(
    trainer: Trainer, tmp_path: Path
) -> None:
    """Two drafters, each with half of the matrices, train as one process does."""
    few = ("total_steps=4", "eval_every=9", "optim.rows=1", "optim.kind=muon")
    one, two = tmp_path / "one", tmp_path / "two"
    alone = trainer(*settings(*few, "optim.accumulate=2"), env={"ORCH_RUN_DIR": str(one)})
    assert alone.code == 0, alone.err
    both = trainer(*settings(*few, "layout.drafters=2"), env={"ORCH_RUN_DIR": str(two)})
    assert both.code == 0, both.err
    assert losses(one) == pytest.approx(losses(two), rel=1e-4)


def test_layout_is_launched_by_torchrun(tmp_path: Path) -> None:
    """Two targets and a drafter, each a process that torchrun starts and lets meet."""
    words = settings(*SMALL, "total_steps=3", "layout.targets=2", "layout.drafters=1")
    argv = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "3", "--standalone"]
    done = subprocess.run(
        [*argv, "-m", "trainer", "--config", str(TINY), *words], cwd=tmp_path,
        env=clean_env() | {"ORCH_RUN_DIR": str(tmp_path / "run"), "GLOO_SOCKET_IFNAME": "lo"},
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert re.search(r"finished: 3 steps .* drafters \d+% \(2 \+ 1; balanced", done.stdout)
    assert len(losses(tmp_path / "run")) == 3


def started(tmp_path: Path, *words: str) -> "subprocess.Popen[str]":
    """A long run of several processes, as soon as it trains."""
    argv = [sys.executable, "-m", "trainer", "--config", str(TINY)]
    few = (*SMALL, "total_steps=100000", "eval_every=100000", "checkpoint.every=100000")
    argv += settings(*few, "optim.rows=1", *words)
    running = subprocess.Popen(
        argv, cwd=tmp_path, env=clean_env() | {"ORCH_RUN_DIR": str(tmp_path / "run")},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    metrics = tmp_path / "run" / "metrics.jsonl"
    deadline = time.monotonic() + 500
    while not (metrics.is_file() and '"train"' in metrics.read_text()):
        assert running.poll() is None, running.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return running


def children(running: "subprocess.Popen[str]") -> dict[str, int]:
    """The run's processes by rank."""
    found = {}
    for number in Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split():
        environ = Path(f"/proc/{number}/environ").read_bytes().split(b"\0")
        rank = [word for word in environ if word.startswith(b"RANK=")]
        found[rank[0].decode().removeprefix("RANK=")] = int(number)
    return found


@pytest.mark.parametrize(("split", "dead"), [((1, 1), "target 0"), ((0, 2), "drafter 1")])
def test_layout_ends_whole_with_the_first_death(
    tmp_path: Path, split: tuple[int, int], dead: str
) -> None:
    """A killed target, or drafter, ends all; the exit code and the words are its own."""
    running = started(tmp_path, f"layout.targets={split[0]}", f"layout.drafters={split[1]}")
    members = children(running)
    os.kill(members["0" if dead == "target 0" else "1"], signal.SIGKILL)
    began = time.monotonic()
    _, err = running.communicate(timeout=60)
    assert time.monotonic() - began < 25
    assert running.returncode == 128 + signal.SIGKILL
    assert f"error: {dead} died by SIGKILL; all others were ended" in err
    assert not any(Path(f"/proc/{pid}").exists() for pid in members.values())


def test_layout_saves_at_sigterm_and_resumes(trainer: Trainer, tmp_path: Path) -> None:
    """Both drafters stop at one step, one saves, and another layout goes on from there."""
    running = started(tmp_path, "layout.drafters=2")
    running.send_signal(signal.SIGTERM)
    out, err = running.communicate(timeout=200)
    assert running.returncode == 143, err
    stopped = re.search(r"stopped by SIGTERM at step (\d+)/100000; saved ", out)
    assert stopped is not None, out
    total = int(stopped[1]) + 2
    ended = trainer(
        *settings(f"total_steps={total}", "optim.rows=1", "optim.accumulate=2"),
        env={"ORCH_RUN_DIR": str(tmp_path / "run"), "ORCH_ATTEMPT": "2"},
    )
    assert ended.code == 0, ended.err
    assert f"resumed from {tmp_path / 'run' / 'checkpoints'}" in ended.out
    assert f"finished: {total} steps" in ended.out


def test_layout_dies_with_its_launcher(tmp_path: Path) -> None:
    """Nobody trains on when the process that started them is gone."""
    running = started(tmp_path, "layout.drafters=2")
    members = children(running)
    running.kill()
    running.communicate(timeout=60)
    deadline = time.monotonic() + 30
    while any(is_running(pid) for pid in members.values()):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def is_running(pid: int) -> bool:
    """Whether the process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_layout_error_is_said_once_with_its_own_code(trainer: Trainer) -> None:
    """A configuration that a process refuses ends all with 2 and its sentence last."""
    ended = trainer(*settings("layout.drafters=2", "target.path=/no/such/target"))
    assert ended.code == 2
    assert "target.path: /no/such/target: no such file" in ended.err.splitlines()[-1]


def test_a_ring_waits_when_full_and_gives_items_in_order() -> None:
    """The maker is held back until a slot is free; what is taken is what was put."""
    ring = Ring.make(2, 4096)
    other = Ring.open(ring.path, 2, 4096)
    ring.use_memory(pinned=False, take=True)
    put: list[int] = []

    def fill() -> None:
        for number in range(5):
            assert other.put(number, torch.full((3, 4), float(number)), lambda _: None)
            put.append(number)  # read while it grows

    thread = threading.Thread(target=fill)
    thread.start()
    for number in range(4):
        x = ring.take(number, (3, 4), torch.float32, CPU, lambda _: None)
        assert torch.equal(x, torch.full((3, 4), float(number)))
        assert len(put) <= number + 3
    thread.join(30)
    assert put == [0, 1, 2, 3, 4]
    waiting = threading.Thread(target=lambda: put.append(int(other.put(9, x, lambda _: None))))
    waiting.start()
    ring.close()
    waiting.join(30)
    assert put[-1] == 0, "a closed ring takes nothing more"


def test_a_ring_is_filled_over_tcp_and_holds_its_targets_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two targets of other hosts send their items in turn, each no sooner than its slot is free."""
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    ring = Ring.make(2, 1 << 22)
    ring.use_memory(pinned=False, take=True)
    receiver = Receiver(ring, 1 << 22)
    size = (1 << 20,)  # beyond what the sockets hold, so that the sender waits
    sent: list[int] = []

    def send(target: int) -> None:
        wire = Wire(receiver.address, target)
        for number in range(target, 8, 2):
            wire.note(target, 1.0 + target, 0.5)
            assert wire.put(number, torch.full(size, float(number)), lambda _: None)
            sent.append(number)
        # The drafter leaves while this is on its way, or before.
        while wire.put(8 + target, torch.zeros(size), lambda _: None):
            pass
        sent.append(-1)

    threads = [threading.Thread(target=send, args=(target,)) for target in range(2)]
    for thread in threads:
        thread.start()
    for number in range(8):
        x = ring.take(number, size, torch.float32, CPU, lambda _: receiver.check())
        assert torch.equal(x, torch.full(size, float(number)))
        assert len(sent) <= number + 6, "slots and what the sockets hold bound it"
    busy, idle = ring.noted(2)
    assert (busy, idle) == (3.0, 1.0)
    ring.close()
    for thread in threads:
        thread.join(60)
    assert sent[-2:] == [-1, -1]
    receiver.check()


def test_a_stranger_fills_no_ring_and_a_lost_target_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without the run's token nothing is taken; a target that goes early is an error."""
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    ring = Ring.make(1, 4096)
    ring.use_memory(pinned=False, take=True)
    receiver = Receiver(ring, 4096)
    host, port, token = receiver.address
    stranger = Wire((host, port, bytes(16)), 0)
    gone = time.monotonic() + 30
    while stranger.put(0, torch.ones(8), lambda _: None):
        assert time.monotonic() < gone
    receiver.check()
    target = Wire((host, port, token), 0)
    assert target.put(0, torch.ones(8), lambda _: None)
    assert ring.take(0, (8,), torch.float32, CPU, lambda _: None).sum() == 8
    del target
    while True:
        try:
            receiver.check()
        except PeerLostError as error:
            assert "a target of another host is gone" in str(error)  # noqa: PT017  # it comes later
            break
        assert time.monotonic() < gone
        time.sleep(0.01)
    ring.close()


def test_layout_of_apart_hosts_has_the_losses_of_one(trainer: Trainer, tmp_path: Path) -> None:
    """Targets of one host feed the drafters of another over TCP."""
    few = ("total_steps=4", "eval_every=2", "optim.rows=1")
    one, four = tmp_path / "one", tmp_path / "four"
    alone = trainer(*settings(*few, "optim.accumulate=2"), env={"ORCH_RUN_DIR": str(one)})
    assert alone.code == 0, alone.err
    split = ("layout.targets=2", "layout.drafters=2", "layout.target_hosts=1")
    apart = trainer(*settings(*few, *split), env={"ORCH_RUN_DIR": str(four)})
    assert apart.code == 0, apart.err
    assert losses(one) == pytest.approx(losses(four), rel=1e-4)
    assert re.search(r"idle: targets \d+%, drafters \d+% \(2 \+ 2; balanced would be", apart.out)


def test_a_ring_larger_than_memory_is_refused() -> None:
    """Before anything is taken, with the sizes to lower."""
    ring = Ring.make(4, 1 << 40)
    with pytest.raises(RingError, match=r"needs 4\d+ bytes of memory .* lower layout.slots"):
        ring.use_memory(pinned=False, take=True)


def test_every_process_reads_the_same_schedule(small_config: Callable[..., Config]) -> None:
    """Each drafter gets its parts of every step in order, and its share of the documents."""
    config = small_config("total_steps=4", "eval_every=2", "optim.accumulate=2")
    items = list(schedule(config, 0, 3, 5))
    for drafter in range(3):
        mine = [(i.step, i.part) for i in items if i.drafter == drafter and i.part >= 0]
        assert mine == [(step, part) for step in range(4) for part in range(2)]
    assert [i.document for i in items if i.step == 2 and i.part < 0] == [0, 1, 2, 3, 4]
    resumed = list(schedule(config, 2, 3, 5))
    assert resumed == items[-len(resumed) :]


def test_the_balanced_split_gives_each_role_as_much_work() -> None:
    """Twice the time for an item needs twice the processes; a good split is kept."""
    assert better_split(5, 3, target_s=0.1, drafter_s=0.3) == (2, 6)
    assert better_split(5, 3, target_s=0.5, drafter_s=0.3) == (5, 3)


def test_processes_of_a_host_share_its_cores() -> None:
    """Several share them, one alone keeps torch's choice, and a number of threads is obeyed."""
    before = torch.get_num_threads()
    cores = len(os.sched_getaffinity(0))
    try:
        for local_size, asked, threads in ((1, 0, before), (2, 0, cores // 2), (2, 3, 3)):
            place = Place(size=2, local_size=local_size)
            Crew(Config(layout=LayoutConfig(drafters=2)), place).share_cores(asked)
            assert torch.get_num_threads() == max(1, threads)
    finally:
        torch.set_num_threads(before)


def test_roles_and_numbers_follow_the_layout() -> None:
    """On each of two hosts the first processes serve and the others train."""
    config = Config(layout=LayoutConfig(targets=2, drafters=1))
    crews = [Crew(config, Place(rank=r, size=6, local_rank=r % 3)) for r in range(6)]
    names = ["target 0", "target 1", "drafter 0", "target 0", "target 1", "drafter 1"]
    assert [crew.name for crew in crews] == names
    assert [crew.leads for crew in crews] == [False, False, True, False, False, False]
    assert {crew.drafters for crew in crews} == {2}
    assert [crew.maker for crew in crews if crew.serves] == [0, 1, 2, 3]
    config = Config(layout=LayoutConfig(targets=2, drafters=3, target_hosts=1))
    crews = [Crew(config, Place(rank=r, size=8)) for r in range(8)]
    names = ["target 0", "target 1", *(f"drafter {n}" for n in range(6))]
    assert [crew.name for crew in crews] == names
    assert [crew.host for crew in crews] == [0, 0, 1, 1, 1, 2, 2, 2]
    assert {(crew.targets, crew.fed, crew.makers) for crew in crews} == {(2, 6, 2)}
    with pytest.raises(ConfigError, match=r"start 2 on each of the target_hosts and 3 on each"):
        Crew(config, Place(rank=0, size=7))
    config = Config(layout=LayoutConfig(targets=2, drafters=1))
    with pytest.raises(ConfigError, match="but 4 processes were started: start 3 on each host"):
        Crew(config, Place(rank=0, size=4))


@pytest.mark.parametrize(
    ("name", "count"), [("cpu-tiny", 0), ("cpu-story", 2), ("1gpu", 0), ("8gpu-5+3", 8)]
)
def test_every_configuration_loads(name: str, count: int) -> None:
    """The shipped files are valid and start as many processes as their names say."""
    config = load(ROOT / "trainer" / "configs" / f"{name}.toml")
    assert needed(config) == count
