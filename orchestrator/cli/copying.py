"""cp: files and folders between here and a target, over a connection of their own."""

import argparse
import asyncio
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from orchestrator.cli import output
from orchestrator.cli.direct import way_to
from orchestrator.cli.targets import target_of
from orchestrator.clock import SystemClock
from orchestrator.core.adhoc import split_place
from orchestrator.core.errors import Unreachable, UsageError
from orchestrator.core.model import Target
from orchestrator.link.copying import copy
from orchestrator.link.ends import Copied, Here
from orchestrator.link.link import Link

MOST_NAMED = 3
"""Each run's folder has a pipe of orch's own, and there may be hundreds."""


def cp(options: argparse.Namespace) -> int:
    """Copy a file or a folder either way; copying again goes on where this one stopped."""
    (source, path), (to, to_path) = split_place(options.source), split_place(options.to)
    away = [_away(options, name) for name in (source, to)]
    if None not in away or (source is None and to is None):
        raise UsageError(
            "cp copies between this machine and one target: one of the two is TARGET:PATH.",
            remedy="orch cp ct200:/srv/orch/dflash/runs/x.log . (a local path with a colon: ./a:b)",
        )
    begun = time.monotonic()
    with _progress() as report:
        copied = Copied(report)
        asyncio.run(_copy(away, path, to_path, copied))
    _say(options, copied, time.monotonic() - begun)
    return 0


def _away(options: argparse.Namespace, name: str | None) -> Target | None:
    """The target of a name; None where that is this machine, named or not."""
    target = target_of(options, name) if name is not None else None
    if target is None or (target.host.transport == "local" and target.runtime == "none"):
        return None
    return target


async def _copy(away: Sequence[Target | None], path: str, to_path: str, copied: Copied) -> None:
    target = next((one for one in away if one is not None), None)
    if target is None:
        await copy(Here(), path, Here(), to_path, copied)
        return
    clock = SystemClock()
    async with way_to(target) as transport:
        link = Link(target, transport, clock, f"cp.{clock.new_id()}")
        try:
            # Large: it is to have a connection of its own, and no run's link beside it.
            async with link.bulk() as there:
                ends = [there if one is not None else Here() for one in away]
                await copy(ends[0], path, ends[1], to_path, copied)
        except Unreachable as error:
            raise Unreachable(
                error.message,
                target=target.name,
                remedy="The same command again goes on where it stopped.",
            ) from error
        finally:
            await link.close()


def _say(options: argparse.Namespace, copied: Copied, seconds: float) -> None:
    for path in copied.left_out[:MOST_NAMED]:
        output.note(f"left out, neither file, folder nor link: {path}")
    if len(copied.left_out) > MOST_NAMED:
        output.note(f"left out as well: {len(copied.left_out) - MOST_NAMED} more of this kind")
    if options.json:
        output.print_json(
            {
                "files": copied.files,
                "unchanged": copied.unchanged,
                "bytes": copied.total_bytes,
                "sent_bytes": copied.sent_bytes,
                "seconds": round(seconds, 3),
                "left_out": copied.left_out,
            }
        )
        return
    files = f"{copied.files} file{'' if copied.files == 1 else 's'}"
    kept = f", {copied.unchanged} unchanged" if copied.unchanged else ""
    rate = output.size(int(copied.sent_bytes / seconds)) if seconds > 0 else "-"
    moved = f"{output.size(copied.sent_bytes)} copied in {output.duration(seconds)} ({rate}/s)"
    done = "nothing to copy" if copied.files and copied.unchanged == copied.files else moved
    output.say(
        f"{files}, {output.size(copied.total_bytes)}{kept}; {done}, each verified by its SHA-256"
    )


@contextmanager
def _progress() -> Iterator[Callable[[Copied], None]]:
    """A bar on a terminal, nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("copy", total=None)
        yield lambda copied: progress.update(
            bar, total=copied.total_bytes, completed=copied.done_bytes
        )
