"""The samples that the lab's GPU stand-ins show.

Owns one text file, written whole and by rename: a line for each GPU (`gpu`) and for each process
on one (`process`), of TAB-separated KEY=VALUE fields, so that shell, Python and C read it alike.
GPU fields carry the names of `nvidia-smi --query-gpu`; a process has gpu, pid, used_memory, name.
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


@dataclass(slots=True)
class Gpus:
    """Drives the samples in FOLDER; every stand-in of the lab reads them there."""

    folder: Path
    fields: list[dict[str, str]] = field(default_factory=list)
    processes: list[GpuProcess] = field(default_factory=list)

    def set_idle(self, count: int) -> None:
        """COUNT GPUs with nothing on them; 0 is a machine without a driver."""
        self.processes = []
        self.fields = [
            {
                "index": str(index),
                "uuid": f"GPU-1ab00000-0000-4000-8000-{index:012x}",
                "name": MODEL,
                "driver_version": "580.00",
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
                "ecc.errors.uncorrected.volatile.total": "0",
                "clocks_throttle_reasons.active": "0x0000000000000001",
                "pci.bus_id": f"00000000:{index + 1:02X}:00.0",
            }
            for index in range(count)
        ]
        self.write()

    def set(self, index: int, **values: object) -> None:
        """Change fields of one GPU; `_` in a name stands for `.`, as in memory_used=70000."""
        known = {name.replace(".", "_"): name for name in self.fields[index]}
        for key, value in values.items():
            self.fields[index][known.get(key, key)] = str(value)
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
        """Every stand-in prints MESSAGE and exits so, until the next `set_idle`."""
        self._replace(f"fail\texit={exit_code}\tmessage={message}\n")

    def write(self) -> None:
        """Show what the fields and processes say now."""
        lines = ["\t".join(["gpu", *(f"{k}={v}" for k, v in f.items())]) for f in self.fields]
        lines += [
            f"process\tgpu={p.gpu}\tpid={p.pid}\tused_memory={p.used_memory_mib}\tname={p.name}"
            for p in self.processes
        ]
        self._replace("\n".join(lines) + "\n")

    def _replace(self, text: str) -> None:
        fresh = self.folder / ".samples"
        fresh.write_text(text)
        fresh.chmod(0o644)
        fresh.rename(self.folder / "samples")
