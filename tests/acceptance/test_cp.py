"""Files between here and a container, both ways: whole, verified, gone on with after a cut."""

import hashlib
import os
import socket
import stat
from pathlib import Path

import pytest

from tests.acceptance.conftest import MakeOrch, Orch
from tests.lab.lab import Lab

pytestmark = [
    pytest.mark.lab,
    pytest.mark.xdist_group("lab-cp"),
    pytest.mark.timeout(240),  # many commands, each a process, on a machine that may be busy
]


@pytest.fixture(params=["200", "201"])
def container(request: pytest.FixtureRequest) -> str:
    """A privileged and an unprivileged container."""
    return str(request.param)


@pytest.fixture
def orch(lab: Lab, make_orch: MakeOrch) -> Orch:
    """`orch` with the lab's targets."""
    return make_orch(lab.inventory_yaml())


def digest(path: Path) -> str:
    """SHA-256 of a file, hex."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_folder_there_and_back(lab: Lab, orch: Orch, container: str, tmp_path: Path) -> None:
    """Names, modes, links, empty files and folders survive both ways; again sends nothing."""
    top = tmp_path / "my stuff"
    (top / "sub" / "empty").mkdir(parents=True)
    (top / "sub" / "it's\na name").write_bytes(os.urandom(3_000_000))
    (top / "run.sh").write_text("#!/bin/sh\n")
    (top / "run.sh").chmod(0o751)
    (top / "none").touch(mode=0o600)
    (top / "link").symlink_to("sub/nowhere")
    (top / "sub").chmod(0o555)
    os.mkfifo(top / "fifo")
    place = f"ct{container}:/srv/copied"
    done = orch("cp", str(top), place, "--json")
    assert "fifo" in done.stderr
    back = tmp_path / "back"
    orch("cp", place, str(back))
    for path in top.rglob("*"):
        other = back / path.relative_to(top)
        if path.name == "fifo":
            assert not other.exists()
            continue
        assert other.lstat().st_mode == path.lstat().st_mode, path
        if stat.S_ISREG(path.lstat().st_mode):
            assert digest(other) == digest(path)
    assert (back / "link").readlink() == Path("sub/nowhere")
    again = orch.json("cp", f"{top}/.", f"{place}/")
    assert again["files"] == 3


def test_what_is_there_already_is_not_sent_again(orch: Orch, tmp_path: Path) -> None:
    """A second copy of the same file sends no byte."""
    file = tmp_path / "weights.bin"
    file.write_bytes(os.urandom(2_500_000))
    first = orch.json("cp", str(file), "ct200:/srv/")
    assert (first["files"], first["sent_bytes"]) == (1, 2_500_000)
    again = orch.json("cp", str(file), "ct200:/srv/weights.bin")
    assert (again["unchanged"], again["sent_bytes"]) == (1, 0)


@pytest.mark.parametrize("inward", [True, False], ids=["from", "to"])
def test_a_copy_that_was_cut_goes_on(lab: Lab, orch: Orch, tmp_path: Path, inward: bool) -> None:
    """Killed half-way, the next copy sends only the rest, and the file is whole."""
    here, there = tmp_path / "big", lab["200"].root / "srv" / "big"
    source, to = (there, here) if inward else (here, there)
    source.write_bytes(os.urandom(1 << 20) * 256)
    part = to.with_name(".big.orch-part")
    words = ("cp", "ct200:/srv/big", str(here)) if inward else ("cp", str(here), "ct200:/srv/big")
    copying = orch.start(*words)
    orch.until(lambda: (part.exists() and part.stat().st_size > 8 << 20) or to.exists())
    copying.kill()
    copying.communicate()
    if to.exists():
        pytest.skip("the copy was done before it could be cut")
    assert part.exists()
    said = orch.json(*words)
    assert said["sent_bytes"] < said["bytes"]
    assert digest(to) == digest(source)
    assert not part.exists()


def test_a_part_of_another_file_is_not_gone_on_with(lab: Lab, orch: Orch, tmp_path: Path) -> None:
    """What lies there under the part's name and differs is sent anew."""
    file = tmp_path / "f"
    file.write_bytes(b"right" * 1000)
    (lab["200"].root / "srv" / ".f.orch-part").write_bytes(b"wrong" * 2000)
    orch("cp", str(file), "ct200:/srv/f")
    assert (lab["200"].root / "srv" / "f").read_bytes() == file.read_bytes()


@pytest.mark.parametrize("inward", [True, False], ids=["from", "to"])
def test_the_longest_names_survive(lab: Lab, orch: Orch, tmp_path: Path, inward: bool) -> None:
    """A name of 255 bytes, and one of 250 in letters of two bytes; the part is no longer."""
    for name in ("n" * 255, "\u00e4" * 125):
        here, there = tmp_path / name, lab["200"].root / "srv" / name
        (there if inward else here).write_bytes(name.encode())
        words = (f"ct200:/srv/{name}", f"{tmp_path}/") if inward else (str(here), "ct200:/srv/")
        orch("cp", *words)
        assert (here if inward else there).read_bytes() == name.encode()
    assert not [*(lab["200"].root / "srv").glob("*.orch-part")]


def test_files_that_are_made_as_they_are_read_arrive_whole(orch: Orch, tmp_path: Path) -> None:
    """Those of /proc say that they have no byte, those of /sys a page; both give something else."""
    orch("cp", "ct200:/proc/version", str(tmp_path))
    assert (tmp_path / "version").read_text() == Path("/proc/version").read_text()
    setting = "sys/kernel/mm/transparent_hugepage/enabled"
    orch("cp", f"ct200:/{setting}", str(tmp_path))
    assert (tmp_path / "enabled").read_text() == Path("/", setting).read_text()


def test_a_file_without_a_size_that_has_no_end_is_refused(orch: Orch, tmp_path: Path) -> None:
    """Nothing of it is taken for the whole."""
    said = orch("cp", "ct200:/proc/kallsyms", str(tmp_path), check=1).stderr
    assert "does not say how large it is" in said
    assert not (tmp_path / "kallsyms").exists()


def test_this_machine_by_its_name_is_this_machine(lab: Lab, orch: Orch, tmp_path: Path) -> None:
    """`local:` on either side, beside a target or a path here; two other machines are refused."""
    (tmp_path / "a").write_text("here\n")
    orch("cp", f"local:{tmp_path}/a", "ct200:/srv/a")
    assert (lab["200"].root / "srv" / "a").read_text() == "here\n"
    orch("cp", "ct200:/srv/a", f"local:{tmp_path}/b")
    orch("cp", f"local:{tmp_path}/b", str(tmp_path / "c"))
    assert (tmp_path / "c").read_text() == "here\n"
    assert "one of the two" in orch("cp", "ct200:/srv/a", "ct201:/srv/a", check=2).stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("/a", "/b"), "one of the two"),
        (("ct200:/srv/none", "."), "is not there"),
        (("ct200:/dev/null", "x"), "neither a file nor a folder"),
        (("ct9:/x", "."), "no target ct9"),
    ],
)
def test_what_cannot_be_copied_is_said(orch: Orch, words: tuple[str, str], said: str) -> None:
    """Both sides here, nothing there, a device, an unknown target."""
    assert said in orch("cp", *words, check=2).stderr


@pytest.fixture
def listening(lab: Lab) -> int:
    """A port inside container 200, which has no network, whose server answers in capitals."""
    script = (
        "import socketserver as s\n"
        "class H(s.StreamRequestHandler):\n"
        " def handle(self):\n"
        "  for line in self.rfile: self.wfile.write(line.upper())\n"
        "s.TCPServer.allow_reuse_address = True\n"
        "s.ThreadingTCPServer(('127.0.0.1', 6006), H).serve_forever()\n"
    )
    lab["200"].run(
        ["sh", "-c", 'ip link set lo up; setsid python3 -c "$1" >/dev/null 2>&1 &', "sh", script]
    )
    return 6006


def test_forward_reaches_a_port_of_a_container_without_a_network(
    orch: Orch, listening: int, free_port: int
) -> None:
    """Both directions, several connections, an end of input passed on; a closed port is said."""
    forwarding = orch.start("forward", "ct200", str(listening), "--local", str(free_port))

    def answer() -> bytes:
        try:
            with socket.create_connection(("127.0.0.1", free_port), timeout=20) as link:
                link.sendall(b"one\ntwo\n")
                link.shutdown(socket.SHUT_WR)
                return b"".join(iter(lambda: link.recv(100), b""))
        except ConnectionError:
            return b""

    try:
        assert orch.until(answer) == b"ONE\nTWO\n"
        assert answer() == b"ONE\nTWO\n"
    finally:
        forwarding.terminate()
        shown, _ = forwarding.communicate(timeout=30)
    assert f"localhost:{free_port} is port 6006 on ct200" in shown


def test_forward_says_what_hinders_a_connection(orch: Orch, lab: Lab, free_port: int) -> None:
    """A port on which nothing listens, and a container whose loopback is down, are told apart."""
    said = _said_by_forward(orch, free_port)
    assert "nothing listens on port 6007 there" in said
    lab["200"].run(["ip", "link", "set", "lo", "down"])
    try:
        said = _said_by_forward(orch, free_port)
    finally:
        lab["200"].run(["ip", "link", "set", "lo", "up"])
    assert "loopback interface is down" in said
    assert "ip link set lo up" in said
    assert "Errno" not in said


def _said_by_forward(orch: Orch, free_port: int) -> str:
    """What `forward` prints of a connection to port 6007 that comes to nothing."""
    forwarding = orch.start("forward", "ct200", "6007", "--local", str(free_port))

    def tried() -> bool:
        try:
            with socket.create_connection(("127.0.0.1", free_port), timeout=20) as link:
                return link.recv(1) == b""
        except ConnectionError:
            return False

    try:
        assert orch.until(tried)
    finally:
        forwarding.terminate()
        shown, said = forwarding.communicate(timeout=30)
    return f"{shown}{said}"
