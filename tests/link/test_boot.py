"""The first seconds of a link: through real shells on this machine, with real Pythons."""

import hashlib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.core.errors import RemoteCommandFailed, Unreachable
from orchestrator.core.model import Host, Target
from orchestrator.link.boot import Booted, NoPython, Patience, boot
from orchestrator.link.package import ProbePackage, build
from orchestrator.probe.frames import encode
from orchestrator.testing import FakeStreams, FakeTransport
from orchestrator.transport.local import LocalTransport
from tests.link.fakes import HELLO, PACKAGE, TARGET

HERE = Target(name="here", host=Host(name="here", transport="local"))
PROBE = build(
    {
        "orchestrator/probe/__init__.py": b"",
        "orchestrator/probe/__main__.py": (
            b"import sys, json\n"
            b"def main():\n"
            b"    print(json.dumps({'kind': 'hello', 'v': 1, 'argv': sys.argv}), flush=True)\n"
            b"    sys.stdin.read()\n"
        ),
    }
)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of this test's own."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    return tmp_path


async def start(target: Target = HERE, package: ProbePackage = PROBE) -> Booted:
    """Boot on this machine."""
    return await boot(target, LocalTransport(target.name), package, generation=12, key="k.1")


async def test_the_probe_is_pushed_once(home: Path) -> None:
    """The first start sends the file, whole and by its digest; the second finds it there."""
    for _ in range(2):
        booted = await start()
        await booted.channel.close()
    (stored,) = (home / "share/orch/probe").iterdir()
    assert stored.name == f"{PROBE.digest}.pyz"
    assert hashlib.sha256(stored.read_bytes()).hexdigest() == PROBE.digest
    inode = stored.stat().st_ino
    booted = await start()
    await booted.channel.close()
    assert stored.stat().st_ino == inode
    assert booted.hello["argv"][1:] == ["serve", "--generation", "12", "--key", "k.1"]


async def test_a_torn_file_is_sent_again(home: Path) -> None:
    """A file with the right name and other bytes is replaced before it is run."""
    path = home / "share/orch/probe" / f"{PROBE.digest}.pyz"
    path.parent.mkdir(parents=True)
    path.write_bytes(PROBE.content[:100])
    booted = await start()
    await booted.channel.close()
    assert path.read_bytes() == PROBE.content


async def test_a_home_that_cannot_be_written(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a home that can be written the probe finds another place."""
    monkeypatch.setenv("XDG_DATA_HOME", "/proc/none")
    booted = await start()
    await booted.channel.close()
    path = Path(booted.hello["argv"][0])
    assert path.parent.parent == Path("/var/tmp")
    path.unlink()


async def test_python_of_the_target_is_used(home: Path) -> None:
    """`python:` of a target is the interpreter, even where another would be found."""
    wrapper = home / "my python"
    wrapper.write_text('#!/bin/sh\nexport FROM_WRAPPER=1\nexec python3 "$@"\n')
    wrapper.chmod(0o755)
    booted = await start(replace(HERE, python=str(wrapper)))
    await booted.channel.close()
    assert booted.hello["kind"] == "hello"


@pytest.mark.parametrize("script", ["exit 1", "echo 2.7; exit 2", "sleep 0; exit 127"])
async def test_no_python(home: Path, script: str) -> None:
    """An interpreter that is missing, old or broken is said to be so, with the remedy."""
    old = home / "python"
    old.write_text(f"#!/bin/sh\n{script}\n")
    old.chmod(0o755)
    for python in (str(old), str(home / "none")):
        with pytest.raises(NoPython, match=r"^here: there is no Python 3\.10") as caught:
            await start(replace(HERE, python=python))
        assert f"tried {python}" in caught.value.message
        assert "`python: PATH`" in str(caught.value)


async def test_bytes_that_changed_on_the_way() -> None:
    """Other bytes than the digest announced are refused in words, and never run."""
    with pytest.raises(RemoteCommandFailed, match="could not be put there") as caught:
        await start(package=replace(PROBE, digest="0" * 64))
    assert "other bytes came than were announced" in str(caught.value)


def saying(*chunks: bytes, status: int = 0, stderr: bytes = b"") -> FakeTransport:
    """A target whose way in prints these chunks and ends."""

    async def program(streams: FakeStreams) -> int:
        for chunk in chunks:
            streams.write(chunk)
        streams.write_error(stderr)
        return status

    return FakeTransport(TARGET.name, {}, default=program)


async def boot_on(transport: FakeTransport) -> Booted:
    """Boot on a fake target."""
    return await boot(TARGET, transport, PACKAGE, generation=1, key="k")


async def test_noise_before_each_answer() -> None:
    """Whatever shells, wrappers and sitecustomize print before, the hello is found."""
    booted = await boot_on(
        saying(
            b"Welcome!\n\xff\xfe\n{}\n[1]\nhello\nprompt> \norch have\n",
            b"sitecustomize\nnull\n" + encode(HELLO) + b"more",
        )
    )
    assert booted.hello == HELLO
    await booted.channel.close()


async def test_too_much_noise() -> None:
    """A far side that prints without end is cut off, with a sentence."""
    with pytest.raises(Unreachable, match="KiB came before a hello"):
        await boot_on(saying(*[b"x" * 1000 + b"\n"] * 1000))
    with pytest.raises(Unreachable, match="KiB came before a hello"):
        await boot_on(saying(b"x" * 9_000_000))


async def test_way_in_that_fails() -> None:
    """A runtime that refuses is told with its status and its words, without their escapes."""
    transport = saying(status=2, stderr=b"\033[1mthe lock is held\033[0m\n")
    with pytest.raises(Unreachable) as caught:
        await boot_on(transport)
    assert "exit status 2" in str(caught.value)
    assert "?[1mthe lock is held" in str(caught.value)
    assert "Is container 200 running?" in str(caught.value)


async def test_a_container_that_does_not_run() -> None:
    """Words of a runtime that are known to mean this are said as a sentence, with what to do."""
    with pytest.raises(Unreachable, match="Container 200 does not run on host pve1"):
        await boot_on(saying(status=255, stderr=b"CT 200 not running\n"))


@pytest.mark.parametrize("hello", [{**HELLO, "v": 999}, {"kind": "pong"}])
async def test_no_probe_of_ours(hello: dict[str, object]) -> None:
    """What speaks another version, or begins with another frame, is no probe."""
    with pytest.raises(Unreachable, match="no probe of version"):
        await boot_on(saying(b"\norch have\n", encode(hello)))


@pytest.fixture
async def silent() -> AsyncIterator[FakeTransport]:
    """A target whose way in says nothing and never ends."""

    async def program(streams: FakeStreams) -> int:
        while await streams.read():
            pass
        return 0

    transport = FakeTransport(TARGET.name, {}, default=program)
    yield transport
    await transport.close()


async def test_silence(silent: FakeTransport) -> None:
    """A way in that says nothing is given up in time, and let go."""
    patience = Patience(answer_s=0.05)
    with pytest.raises(Unreachable, match=r"the shell there gives no answer within 0\.05 s"):
        await boot(TARGET, silent, PACKAGE, generation=1, key="k", patience=patience)


def test_patience_grows_with_failures() -> None:
    """A way in that hangs is left soon at first, and a slow host gets its time in the end."""
    waits = [Patience().after(failures).answer_s for failures in range(5)]
    assert waits == [8.0, 16.0, 30.0, 30.0, 30.0]
    assert Patience(answer_s=0.05).after(0).answer_s == 0.05
