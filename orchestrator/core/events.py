"""What happened to a run or to what we see of it: typed facts, each with its time.

Owns the vocabulary between observing and deciding; parses nothing and decides nothing.
Times (`at`, `seen_at`) are unix seconds; offsets are bytes from the start of a stream.
"""

from dataclasses import dataclass

from orchestrator.core.model import ExitRecord, GpuSample


@dataclass(frozen=True, slots=True, kw_only=True)
class LogBytes:
    """New bytes of an attempt's output, exactly as its program wrote them."""

    offset: int
    data: bytes
    at: float

    @property
    def end(self) -> int:
        """Offset behind the last byte."""
        return self.offset + len(self.data)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogGap:
    """Bytes of the output that cannot be had any more; no offset counts them."""

    offset: int
    """Where they are missing."""
    size: int
    reason: str
    """`disk_full`, `truncated` or `rotated`."""
    end: int
    """Where the output goes on: `offset`, or 0 where its file began anew."""
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricLines:
    """New whole lines of the run's metrics file; the last one may be torn only at an exit."""

    offset: int
    data: bytes
    at: float

    @property
    def end(self) -> int:
        """Offset behind the last byte."""
        return self.offset + len(self.data)

    @property
    def lines(self) -> tuple[bytes, ...]:
        """The lines without their ends."""
        return tuple(self.data.splitlines())


@dataclass(frozen=True, slots=True, kw_only=True)
class Exited:
    """The attempt's program ended and its relay said how; every byte of its log came before."""

    record: ExitRecord
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayGone:
    """The relay ended without an exit record, as after a reboot or a kill -9."""

    reason: str
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionChanged:
    """The tmux session vanished (`detached`) or is back; the attempt lives on either way."""

    detached: bool
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTold:
    """The relay has alerted itself of the attempt's end; comes before everything else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpusSampled:
    """One round of GPU samples; `error` says why there are none."""

    samples: tuple[GpuSample, ...]
    source: str
    """`nvml` or `nvidia-smi`."""
    at: float
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelLine:
    """A line of the host's kernel log that may concern a run (Xid, OOM kill)."""

    line: str
    at: float
    container_pid: int | None = None
    """The PID inside its container of the process it names, where that could still be seen."""
    container: str | None = None
    """Of that process, by name; likewise its run and the run's folder."""
    run: str | None = None
    run_dir: str | None = None


Event = (
    LogBytes
    | LogGap
    | MetricLines
    | Exited
    | RelayGone
    | SessionChanged
    | EndTold
    | GpusSampled
    | KernelLine
)
