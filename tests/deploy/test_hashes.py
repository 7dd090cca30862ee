"""The cache of hashes: several deploys share it, and it is a help only."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from orchestrator.core.model import Job
from orchestrator.deploy.bundle import Bundle, collect
from orchestrator.deploy.hashes import HashCache


def test_several_packages_are_walked_at_once(job: Job, tmp_path: Path) -> None:
    """As two deploys of different jobs do: each gets its bundle, and all hashes are kept."""
    jobs = []
    for number in range(6):
        folder = tmp_path / f"package{number}"
        folder.mkdir()
        for name in range(400 + number * 75):
            (folder / f"f{name}.py").write_text(f"{number} {name}")
        jobs.append(replace(job, name=f"job{number}", package=str(folder)))
    for attempt in range(3):
        path = tmp_path / "state" / f"{attempt}.json"
        cache = HashCache(path)
        later = time.time() + 10

        def bundle_of(one: Job, cache: HashCache = cache, now: float = later) -> Bundle:
            return collect(one, cache=cache, now=now)

        with ThreadPoolExecutor(len(jobs)) as pool:
            bundles = list(pool.map(bundle_of, jobs))
        assert [one.files for one in bundles] == [400 + number * 75 for number in range(6)]
        told: list[int] = []
        kept = HashCache(path)
        for one in jobs:
            collect(one, cache=kept, now=later, on_unread=told.append)
        assert sum(one > 0 for one in told) <= 1, "what is few is hashed again"


def test_a_cache_that_cannot_be_written_stops_no_deploy(job: Job, tmp_path: Path) -> None:
    """As on a full disk: the bundle is whole, and known in memory."""
    (tmp_path / "file").touch()
    cache = HashCache(tmp_path / "file" / "hashes.json")
    told: list[int] = []
    later = time.time() + 10
    bundle = collect(job, cache=cache, now=later, on_unread=told.append)
    collect(job, cache=cache, now=later, on_unread=told.append)
    assert told == [bundle.bytes, 0]
