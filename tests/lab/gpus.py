"""The samples that the lab's GPU stand-ins show.

Owns one text file, written whole and by rename: a line for each GPU (`gpu`), for each part of a
divided one (`mig`) and for each process on one (`process`), of TAB-separated KEY=VALUE fields, so
that shell, Python and C read it alike. GPU fields carry the names of `nvidia-smi --query-gpu`; a
process has gpu, pid, used_memory, name, and gi where it is on a part.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

MODEL = "Lab Stand-in H200"
MEMORY_TOTAL_MIB = 143771


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuProcess:
    """A process that holds memory on a GPU; PID as the host counts."""

    gpu: int
    pid: int
    used_memory_mib: int
    name: str = "python3"
    type: str = "C"
    """C computes, G draws."""
    instance: int | None = None
    """The GPU instance that it is on, of a GPU that is divided."""
    inside: bool = False
    """Whether the driver tells of it to a container as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MigDevice:
    """A part of a divided GPU."""

    gpu: int
    index: int
    instance: int
    used_memory_mib: int = 0
    total_memory_mib: int = 16_384


@dataclass(slots=True)
class Gpus:
    """Drives the samples in FOLDER; every stand-in of the lab reads them there."""

    folder: Path
    fields: list[dict[str, str]] = field(default_factory=list)
    processes: list[GpuProcess] = field(default_factory=list)
    parts: list[MigDevice] = field(default_factory=list)
    xids: list[tuple[int, int]] = field(default_factory=list)

    def set_idle(self, count: int) -> None:
        """COUNT GPUs with nothing on them; 0 is a machine without a driver."""
        self.processes, self.parts, self.xids = [], [], []
        self.fields = [
            {
                "index": str(index),
                "uuid": f"GPU-1ab00000-0000-4000-8000-{index:012x}",
                "name": MODEL,
                "driver_version": "580.00",
                "compute_cap": "9.0",
                "memory.reserved": "615",
                "memory.total": str(MEMORY_TOTAL_MIB),
                "memory.used": "0",
                "memory.free": str(MEMORY_TOTAL_MIB),
                "utilization.gpu": "0",
                "utilization.memory": "0",
                "temperature.gpu": "31",
                "temperature.memory": "33",
                "power.draw": "74.50",
                "power.limit": "700.00",
                "clocks.sm": "345",
                "clocks.mem": "3201",
                "pstate": "P0",
                "mig.mode.current": "Disabled",
                "ecc.errors.corrected.volatile.total": "0",
                "ecc.errors.uncorrected.volatile.total": "0",
                "remapped_rows.correctable": "0",
                "remapped_rows.uncorrectable": "0",
                "remapped_rows.pending": "0",
                "remapped_rows.failure": "0",
                "nvlink.crc_flit": "0",
                "nvlink.replay": "0",
                "pcie.replays": "0",
                "clocks_throttle_reasons.active": "0x0000000000000001",
                "pci.bus_id": f"00000000:{index + 1:02X}:00.0",
            }
            for index in range(count)
        ]
        self.write()

    def set(self, index: int, **values: object) -> None:
        """Change fields of one GPU; `_` in a name stands for `.`, as in memory_used=70000.

        `[N/A]` is what the GPU does not say.
        """
        known = {name.replace(".", "_"): name for name in self.fields[index]}
        for key, value in values.items():
            self.fields[index][known.get(key, key)] = str(value)
        self.write()

    def lose(self, index: int) -> None:
        """Let a GPU fall off its bus: the driver knows that it was there, and nothing else."""
        self.fields[index]["lost"] = "1"
        self.write()

    def xid(self, index: int, number: int) -> None:
        """Let NVML tell of an Xid of one GPU to who listens; the kernel's log has nothing of it."""
        self.xids.append((index, number))
        self.write()

    def divide(self, *parts: MigDevice) -> None:
        """Turn MIG on for the GPUs that have these parts."""
        self.parts = list(parts)
        for index in {part.gpu for part in parts}:
            self.fields[index]["mig.mode.current"] = "Enabled"
            self.fields[index]["utilization.gpu"] = "[N/A]"
        self.write()

    def run_on(self, *processes: GpuProcess) -> None:
        """These and no other processes hold memory; each GPU's memory.used follows."""
        self.processes = list(processes)
        for index, fields in enumerate(self.fields):
            used = sum(p.used_memory_mib for p in processes if p.gpu == index)
            fields["memory.used"] = str(used)
            fields["memory.free"] = str(int(fields["memory.total"]) - used)
        self.write()

    def fail(self, message: str, exit_code: int = 9) -> None:
        """nvidia-smi prints MESSAGE and exits so, NVML fails likewise, until the next `write`."""
        # NVML has the exit codes of nvidia-smi for its own errors: 9 no driver, 18 mismatch.
        nvml = exit_code if exit_code < 100 else 999
        self._replace(f"fail\texit={exit_code}\tnvml={nvml}\tmessage={message}\n")

    def hang(self) -> None:
        """No call of NVML returns any more, until the next `write`."""
        self._replace("hang\n" + (self.folder / "samples").read_text())

    def write(self) -> None:
        """Show what the fields and processes say now."""
        lines = ["\t".join(["gpu", *(f"{k}={v}" for k, v in f.items())]) for f in self.fields]
        lines += [_part_line(part) for part in self.parts]
        lines += [_process_line(process) for process in self.processes]
        lines += [f"xid\tgpu={index}\txid={number}" for index, number in self.xids]
        self._replace("\n".join(lines) + "\n")

    def _replace(self, text: str) -> None:
        fresh = self.folder / ".samples"
        fresh.write_text(text)
        fresh.chmod(0o644)
        fresh.rename(self.folder / "samples")


def _part_line(part: MigDevice) -> str:
    fields = {
        "gpu": part.gpu,
        "index": part.index,
        "gi": part.instance,
        "ci": 0,
        "uuid": f"MIG-1ab00000-0000-4000-8000-{part.gpu:06x}{part.index:06x}",
        "memory.used": part.used_memory_mib,
        "memory.total": part.total_memory_mib,
    }
    return "\t".join(["mig", *(f"{key}={value}" for key, value in fields.items())])


def _process_line(process: GpuProcess) -> str:
    fields = {
        "gpu": process.gpu,
        "pid": process.pid,
        "used_memory": process.used_memory_mib,
        "name": process.name,
        "type": process.type,
        "inside": int(process.inside),
    }
    if process.instance is not None:
        fields |= {"gi": process.instance, "ci": 0}
    return "\t".join(["process", *(f"{key}={value}" for key, value in fields.items())])
