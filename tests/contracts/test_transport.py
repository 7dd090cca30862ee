"""What every transport does, the fake one included: one suite, run against all of them."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from orchestrator.core.command import Command
from orchestrator.core.errors import Unreachable
from orchestrator.core.model import Host, Target
from orchestrator.testing import FakeStreams, FakeTransport
from orchestrator.transport.base import Channel, Transport
from orchestrator.transport.pool import Pool
from tests.lab.declared import declared
from tests.lab.lab import Lab

CAT = Command(argv=("cat",))
STATUS_3 = Command(argv=("sh", "-c", "echo out; echo err >&2; exit 3"))
ESCAPES = Command(argv=("sh", "-c", "yes '\033[31mred' | head -c 20000 >&2"))
KILLED = Command(argv=("sh", "-c", "kill -9 $$"))
STUCK = Command(argv=("sleep", "600"))
MISSING = Command(argv=("no-such-program",))


async def _sh(streams: FakeStreams) -> int | None:
    """What the shell lines above do."""
    if streams.argv == KILLED.argv:
        return None
    if streams.argv == ESCAPES.argv:
        streams.write_error(b"\033[31mred\n" * 3000)
        return 0
    streams.write(b"out\n")
    streams.write_error(b"err\n")
    return 3


async def _cat(streams: FakeStreams) -> int:
    while chunk := await streams.read():
        streams.write(chunk)
    return 0


async def _sleep(streams: FakeStreams) -> int:
    del streams
    await asyncio.sleep(600)
    return 0


@dataclass(frozen=True, slots=True)
class Subject:
    """A transport and the name of its target."""

    transport: Transport
    target: str


KINDS = [
    "fake",
    "local",
    *(
        pytest.param(kind, marks=[pytest.mark.lab, pytest.mark.xdist_group("lab-ssh")])
        for kind in ("ssh", "pct", "lxc")
    ),
]


def _lab_target(lab: Lab, kind: str) -> Target:
    host = declared(lab)
    runtime = "none" if kind == "ssh" else kind
    return Target(name=f"t-{kind}", host=host, runtime=runtime, container="200")


@pytest.fixture(params=KINDS)
async def subject(request: pytest.FixtureRequest) -> AsyncIterator[Subject]:
    """Each kind of transport in turn."""
    kind: str = request.param
    if kind == "fake":
        fake = FakeTransport("t-fake", {"sh": _sh, "cat": _cat, "sleep": _sleep})
        yield Subject(fake, "t-fake")
        await fake.close()
        return
    pool = Pool()
    if kind == "local":
        target = Target(name="t-local", host=Host(name="here", transport="local"))
    else:
        target = _lab_target(request.getfixturevalue("lab"), kind)
    yield Subject(pool.transport(target), target.name)
    await pool.close()


async def test_status_and_streams(subject: Subject) -> None:
    """A command's exit status, stdout and stderr come back apart."""
    done = await subject.transport.run(STATUS_3)
    assert (done.exit_status, done.stdout, done.stderr) == (3, b"out\n", b"err\n")


async def test_stdin_goes_through_whole(subject: Subject) -> None:
    """A megabyte of any bytes goes in and comes out as it was."""
    content = bytes(range(256)) * 4096
    done = await subject.transport.run(CAT, stdin=content)
    assert (done.exit_status, done.stdout) == (0, content)


async def test_killed_command_has_no_status(subject: Subject) -> None:
    """An end by a signal is told from every exit status, where the runtime does so itself."""
    done = await subject.transport.run(KILLED)
    # lxc-attach, and with it pct, turns a signal into 128 + its number.
    assert done.exit_status in ({137} if subject.target in ("t-pct", "t-lxc") else {None})


async def test_missing_program(subject: Subject) -> None:
    """A program that is not there is a status 127 and a sentence, as a shell says it."""
    done = await subject.transport.run(MISSING)
    assert done.exit_status == 127
    assert b"no-such-program" in done.stderr


async def test_stderr_is_kept_short_and_harmless(subject: Subject) -> None:
    """Of a flood on stderr 4 KiB remain, and no terminal escape among them."""
    done = await subject.transport.run(ESCAPES)
    assert 1000 < len(done.stderr) <= 4096
    assert b"\033" not in done.stderr
    assert b"red" in done.stderr


async def test_command_that_does_not_end(subject: Subject) -> None:
    """A command that outlasts its time is Unreachable, by the target's name, and is let go."""
    with pytest.raises(Unreachable, match=rf"^{subject.target}: .* 0\.2 s") as caught:
        await subject.transport.run(STUCK, timeout_s=0.2)
    assert caught.value.target == subject.target


async def test_conversation(subject: Subject) -> None:
    """A channel carries both directions at once, and reads empty once the command has ended."""
    channel = await subject.transport.open(CAT)
    for word in (b"one", b"two"):
        await channel.write(word)
        assert await channel.read() == word
    await channel.close_stdin()
    assert await channel.read() == b""
    assert await channel.wait() == 0
    await channel.close()
    await channel.close()


async def test_small_reads_lose_nothing(subject: Subject) -> None:
    """`size` bounds what one read gives, and the rest comes with the next."""
    channel = await subject.transport.open(CAT)
    await channel.write(b"abcdef")
    got = b""
    while len(got) < 6:
        chunk = await channel.read(2)
        assert 0 < len(chunk) <= 2
        got += chunk
    assert got == b"abcdef"
    await channel.close()


async def test_writing_to_what_has_ended(subject: Subject) -> None:
    """Input for a command that has ended is refused with Unreachable, sooner or later."""
    channel = await subject.transport.open(STATUS_3)
    await _read_out(channel)
    with pytest.raises(Unreachable):
        await asyncio.wait_for(_write_on(channel), timeout=20)
    await channel.close()


async def _write_on(channel: Channel) -> None:
    while True:
        await channel.write(b"x" * 65536)
        await asyncio.sleep(0.01)


async def _read_out(channel: Channel) -> None:
    while await channel.read():
        pass


async def test_bulk_is_the_same_command(subject: Subject) -> None:
    """A command on a connection for bulk does what it does elsewhere."""
    channel = await subject.transport.open(CAT, bulk=True)
    await channel.write(b"x")
    assert await channel.read() == b"x"
    await channel.close()


async def test_many_at_once(subject: Subject) -> None:
    """Thirty commands at once all run, whatever the host allows on one connection."""
    asked = [subject.transport.run(CAT, stdin=b"%d" % number) for number in range(30)]
    done = await asyncio.gather(*asked)
    assert [one.stdout for one in done] == [b"%d" % number for number in range(30)]
