"""The archive of a run, as it is packed."""

import io
import tarfile

from orchestrator.daemon.bundling import _File, _packed


def test_what_is_unpacked_is_its_readers_alone() -> None:
    """Logs of a stranger's machine: whoever unpacks them opens them to nobody else."""
    files = [_File("run.json", "{}\n"), _File("log/attempt-1-tail.txt", "step 1 as s3cret\n")]
    archive = _packed("orch-ok-dflash-1", files, ["s3cret"], 1.0)
    with tarfile.open(fileobj=io.BytesIO(archive.content)) as packed:
        members = packed.getmembers()
        tail = packed.extractfile(members[1])
        assert tail is not None
        assert tail.read() == b"step 1 as [secret removed]\n"
    assert [one.name for one in members] == [f"orch-ok-dflash-1/{one.name}" for one in files]
    assert {oct(one.mode) for one in members} == {"0o600"}
    assert {(one.uid, one.gid, one.type) for one in members} == {(0, 0, tarfile.REGTYPE)}
