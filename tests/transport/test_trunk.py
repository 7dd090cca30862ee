"""A trunk over this machine's own shell: what it holds outlives its connections, byte by byte."""

import asyncio
import os
import resource
import selectors
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from orchestrator.core.command import Command
from orchestrator.core.errors import AuthRefused, Unreachable
from orchestrator.probe import procfs
from orchestrator.probe import trunk_wire as wire
from orchestrator.probe.trunk_command import Commands
from orchestrator.transport.base import Channel
from orchestrator.transport.local import LocalTransport
from orchestrator.transport.trunk import Trunk
from orchestrator.transport.trunk_channel import TrunkChannel
from orchestrator.transport.trunk_holder import NoTrunk
from tests.link.fakes import until

DEADLINE_S = 30.0
CONTENT = bytes(range(256)) * 12_000
Far = tuple[Commands, selectors.BaseSelector]


class Near:
    """A host that is this machine; `cut` ends the connection that the trunk came over."""

    def __init__(self) -> None:
        self.ways: list[Channel] = []
        self.problem: Exception | None = None
        self.path = b""
        self.back = asyncio.Event()
        self.trunk = Trunk("here", self.start, self.back.wait)

    async def start(self, line: bytes) -> Channel:
        if self.problem is not None:
            raise self.problem
        way = await LocalTransport("here").open(Command(argv=("/bin/sh", "-c", self.path + line)))
        self.ways.append(way)
        return way

    async def cut(self) -> None:
        await self.ways[-1].close()

    async def open(self, line: bytes) -> Channel:
        return await self.trunk.open(line, "here")

    async def holder(self) -> int:
        """PID of the holder: the parent of what it runs."""
        asked = await self.open(b'echo "$PPID"')
        return int(await read_all(asked))


async def read_all(channel: Channel) -> bytes:
    """All that a command prints."""
    found = bytearray()
    async with asyncio.timeout(DEADLINE_S):
        while chunk := await channel.read():
            found += chunk
    return bytes(found)


@pytest.fixture
async def near() -> AsyncIterator[Near]:
    """A host whose trunk ends with the test."""
    made = Near()
    yield made
    await made.trunk.close()


async def test_output_complaint_and_status(near: Near) -> None:
    """A command's stdout, the tail of its stderr and its exit status come as over ssh."""
    channel = await near.open(b"echo out; echo err >&2; exit 3")
    assert await read_all(channel) == b"out\n"
    assert await channel.wait() == 3
    assert channel.stderr_tail() == "err\n"


async def test_end_of_input_and_a_signal(near: Near) -> None:
    """The end of stdin reaches a command; one that a signal ended has no exit status."""
    channel = await near.open(b"cat; kill -9 $$")
    await channel.write(b"x")
    await channel.close_stdin()
    assert await read_all(channel) == b"x"
    assert await channel.wait() is None


async def test_commands_share_one_way(near: Near) -> None:
    """Twenty commands at once go over a single command line of the host."""
    channels = [await near.open(b"cat") for _ in range(20)]
    for number, channel in enumerate(channels):
        await channel.write(b"%d" % number)
        await channel.close_stdin()
    assert [await read_all(channel) for channel in channels] == [b"%d" % n for n in range(20)]
    assert len(near.ways) == 1


async def test_bytes_both_ways_across_cuts(near: Near) -> None:
    """However often the way is cut, each byte comes once and in order, in both directions."""
    channel = await near.open(b"cat")

    async def feed() -> None:
        await channel.write(CONTENT)
        await channel.close_stdin()

    feeding, got = asyncio.ensure_future(feed()), bytearray()
    async with asyncio.timeout(4 * DEADLINE_S):
        for part in range(4):
            while len(got) < len(CONTENT) * part // 4:
                got += await channel.read()
            await near.cut()
        got += await read_all(channel)
    await feeding
    assert bytes(got) == CONTENT
    assert await channel.wait() == 0
    assert len(near.ways) == 5


async def test_who_comes_while_it_is_taken_again_waits_for_that(near: Near) -> None:
    """The failure of an attempt before is not told for the one that is being made."""
    await near.open(b"cat")
    near.problem = Unreachable("no route", target="here")
    await near.cut()
    async with asyncio.timeout(DEADLINE_S):
        while near.trunk.problem is None:
            await asyncio.sleep(0.01)
    near.problem = None
    near.back.set()
    for _ in range(10):  # the host answers, and the attempt begins
        await asyncio.sleep(0)
    assert await read_all(await near.open(b"echo there")) == b"there\n"


async def test_what_ends_during_a_cut_is_told_behind_it(near: Near, tmp_path: Path) -> None:
    """A command that goes on and ends while nothing comes through is read to its end later."""
    channel = await near.open(b"read x; echo begun; until [ -e %s/go ]; do sleep 0.05; done; exit 4"
                              % str(tmp_path).encode())  # fmt: skip
    await channel.write(b"\n")
    assert await channel.read() == b"begun\n"
    near.problem = Unreachable("nobody is there", target="here")
    await near.cut()
    await until(lambda: near.trunk.problem is not None)
    (tmp_path / "go").touch()
    near.problem = None
    near.trunk.poke()
    assert await channel.wait() == 4
    assert near.trunk.problem is None


async def test_one_that_is_not_read_holds_up_no_other(near: Near) -> None:
    """A command whose output nobody takes waits with a window of it; the others go on."""
    stuck, lively = await near.open(b"yes"), await near.open(b"cat")
    for number in range(50):
        await lively.write(b"%d\n" % number)
        assert await lively.read() == b"%d\n" % number
    await stuck.read()
    assert len(await stuck.read(1 << 30)) <= wire.WINDOW_BYTES
    await stuck.close()


async def test_a_command_that_is_closed_is_ended(near: Near) -> None:
    """Closing ends the command on the host, also where it was closed while the way was cut."""
    pids = []
    for while_cut in (False, True):
        channel = await near.open(b"echo $$; exec sleep 1000")
        pids.append(int(await channel.read()))
        if while_cut:
            await near.cut()
        await channel.close()
        await near.open(b"true")
    await until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))


async def test_a_holder_that_was_killed(near: Near) -> None:
    """Its commands are lost with a sentence, and the next one gets a new holder."""
    channel = await near.open(b"cat")
    os.kill(await near.holder(), signal.SIGKILL)
    with pytest.raises(Unreachable, match=r"^here: the connection was lost"):
        await asyncio.wait_for(channel.read(), timeout=DEADLINE_S)
    assert await channel.wait() is None
    assert await read_all(await near.open(b"echo again")) == b"again\n"


async def test_a_holder_ends_with_its_daemon(near: Near) -> None:
    """Closing the trunk ends the holder, and what it holds."""
    channel = await near.open(b"echo $$; exec sleep 1000")
    pids = [int(await channel.read()), await near.holder()]
    await near.trunk.close()
    await until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))


async def test_nobody_else_meets_a_holder(near: Near) -> None:
    """The holder's socket is for its user alone, by a name nobody guesses, and goes with it."""
    other = Near()
    try:
        made, second = await socket_of(near), await socket_of(other)
        assert [path.stat().st_mode & 0o077 for path in (made.parent, made)] == [0, 0]
        assert made.stem != second.stem
        assert min(len(made.stem), len(second.stem)) >= 16
    finally:
        await other.trunk.close()
    await near.trunk.close()
    await until(lambda: not made.exists())


async def socket_of(near: Near) -> Path:
    """Where the holder listens: its name is among its words."""
    await near.open(b"cat")
    words = procfs.arguments(await near.holder())
    (found,) = Path(f"/tmp/orch-{os.getuid()}").glob(f"{words[words.index('hold') + 1]}.trunk")
    return found


def path_asked_as(user: int) -> "subprocess.CompletedProcess[str]":
    """What the far end does first, as another user and with an umask that takes nothing away."""
    words = f"import os; from orchestrator.probe import trunk; os.umask(0); os.setuid({user}); "
    return subprocess.run(
        [sys.executable, "-c", f"{words}trunk._path('x')"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.skipif(os.getuid() != 0, reason="becomes another user")
@pytest.mark.parametrize(("user", "owner", "mode"), [(65533, 0, 0o755), (65532, 65532, 0o777)])
def test_a_folder_that_is_not_this_user_s_own_is_not_used(user: int, owner: int, mode: int) -> None:
    """Who owns it, or may write to it, could put a socket of their own in the holder's place."""
    folder = Path(f"/tmp/orch-{user}")
    shutil.rmtree(folder, ignore_errors=True)  # of tests that were killed
    folder.mkdir()
    try:
        os.chown(folder, owner, owner)
        folder.chmod(mode)
        done = path_asked_as(user)
    finally:
        folder.rmdir()
    assert f"{folder} is not this user's own folder" in done.stderr


@pytest.mark.skipif(os.getuid() != 0, reason="becomes another user")
def test_a_new_folder_of_a_holder_shows_nobody_its_sockets() -> None:
    """The names in it are what nobody guesses, so nobody else may list them."""
    folder = Path("/tmp/orch-65531")
    shutil.rmtree(folder, ignore_errors=True)  # as above
    done = path_asked_as(65531)
    assert done.returncode == 0, done.stderr
    try:
        assert oct(folder.stat().st_mode & 0o777) == "0o700"
    finally:
        folder.rmdir()


async def test_a_host_that_cannot_be_reached(near: Near) -> None:
    """All that wait for the first way share the failure, and a later try begins anew."""
    near.problem = Unreachable("nobody is there", target="here")
    tries = [near.open(b"true") for _ in range(3)]
    assert await asyncio.gather(*tries, return_exceptions=True) == [near.problem] * 3
    near.problem = None
    assert await (await near.open(b"exit 5")).wait() == 5


async def test_a_refusal_loses_what_is_held(near: Near) -> None:
    """A way that is refused for good is not tried for ever: each target says why, by itself."""
    channel = await near.open(b"cat")
    near.problem = AuthRefused("no key of ours", target="here")
    await near.cut()
    with pytest.raises(Unreachable):
        await asyncio.wait_for(channel.read(), timeout=DEADLINE_S)
    with pytest.raises(AuthRefused):
        await near.open(b"true")


async def test_a_fault_of_ours_is_told_as_such(near: Near) -> None:
    """What no host can do to us does not pass for a host that is away."""
    near.problem = TypeError("not a line")
    with pytest.raises(TypeError, match="not a line"):
        await near.open(b"true")


async def test_a_host_without_python(near: Near) -> None:
    """Where nothing can be held this is said once, so that plain channels are used."""
    near.path = b"PATH=/nowhere; "
    with pytest.raises(NoTrunk):
        await near.open(b"true")
    assert not near.trunk.usable


def test_a_holder_that_ignores_the_window_is_cut_off() -> None:
    """What nobody has read yet is bounded, whatever the far side sends."""
    channel = TrunkChannel(1, b"yes", "here", lambda: None, lambda _: None)
    whole = b"x" * wire.WINDOW_BYTES
    channel.take(wire.OUT, 0, whole)
    channel.take(wire.OUT, len(whole), whole)  # of a window that a cut gave anew
    with pytest.raises(wire.BadTrunk, match="than there was room for"):
        channel.take(wire.OUT, 2 * len(whole), b"x")


@pytest.fixture
def far() -> Iterator[Far]:
    """The far end's commands, in this process; its limits and handlers are put back."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)
    child = signal.getsignal(signal.SIGCHLD)
    with selectors.DefaultSelector() as selector:
        made = Commands(selector)
        yield made, selector
        made.close_all_but(())
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, child)
    resource.setrlimit(resource.RLIMIT_NOFILE, files)


def turn(far: Far, seconds: float) -> None:
    """What the holder does for so long, without a way."""
    commands, selector = far
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        for ready, _ in selector.select(0.05):
            ready.data()
        commands.look()


def test_one_that_cannot_be_started_ends_no_other(far: Far) -> None:
    """Without a descriptor left the command ends as a shell says it, and the others go on."""
    commands, _ = far
    commands.take(wire.OPEN, 1, 0, b"sleep 60")
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")), hard))
    commands.take(wire.OPEN, 2, 0, b"true")
    found = dict(commands)
    assert (found[2].status, found[2].over) == (126, True)
    assert found[1].status is None


def test_the_last_output_waits_for_room(far: Far) -> None:
    """What is in the pipe as its command ends is read once there is room, however late."""
    commands, more = far[0], 30_000
    commands.take(wire.OPEN, 1, 0, b"head -c %d /dev/zero" % (wire.WINDOW_BYTES + more))
    one = dict(commands)[1]
    turn(far, 1.5)
    assert (one.status, one.over) == (0, False)
    taken = 0
    while not one.over:
        offset, part = one.out.next_part()
        taken = offset + len(part)
        commands.take(wire.ACK_OUT, 1, taken, b"")
        turn(far, 0.1)
    while one.out.waits:
        offset, part = one.out.next_part()
        taken = offset + len(part)
    assert taken == wire.WINDOW_BYTES + more


@pytest.mark.parametrize(
    ("taken", "rewound", "left"),
    [(0, 0, b"abcdef"), (3, 3, b"def"), (3, 5, b"f"), (6, 6, b"")],
)
def test_a_stream_goes_on_where_the_other_side_is(taken: int, rewound: int, left: bytes) -> None:
    """What the other side has taken is forgotten; what it has not is sent again from there."""
    stream = wire.Outgoing()
    stream.add(b"abcdef")
    assert stream.next_part() == (0, b"abcdef")
    stream.take(taken)
    stream.rewind(rewound)
    assert stream.waits is bool(left)
    assert stream.next_part() == (rewound, left)


@pytest.mark.parametrize("offset", [7, 2])
def test_a_stream_that_makes_no_sense(offset: int) -> None:
    """What was never sent cannot have been taken, nor can less than before."""
    stream = wire.Outgoing()
    stream.add(b"abcdef")
    stream.take(4)
    with pytest.raises(wire.BadTrunk):
        stream.take(offset)


def test_bytes_that_come_twice_count_once() -> None:
    """Of a part that is sent again only what is new counts; a part too far ahead is refused."""
    stream = wire.Incoming()
    assert stream.fresh(0, b"abc") == b"abc"
    assert stream.fresh(1, b"bcd") == b"d"
    assert stream.fresh(0, b"ab") == b""
    with pytest.raises(wire.BadTrunk):
        stream.fresh(5, b"x")


def test_frames_come_in_any_pieces() -> None:
    """Frames are the same however the bytes are torn; one larger than any may be is refused."""
    whole = wire.frame(wire.OUT, 7, 1 << 40, b"some") + wire.frame(wire.EXIT, 8, content=b"0")
    for size in range(1, len(whole) + 1):
        frames, found = wire.Frames(), []
        for at in range(0, len(whole), size):
            found += frames.take(whole[at : at + size])
        assert found == [(wire.OUT, 7, 1 << 40, b"some"), (wire.EXIT, 8, 0, b"0")]
    with pytest.raises(wire.BadTrunk):
        wire.Frames().take(wire.HEAD.pack(wire.OUT, 1, 0, wire.WINDOW_BYTES + 1))
