"""Op `environment`: what a job finds here, in so many words that two of them can be compared.

Owns packages, interpreter, torch, driver, kernel, GPUs, variables and compile caches. Reads only;
imports nothing of the job's own (importing torch takes seconds and opens the GPU).
"""

import json
import os
import shutil
import subprocess
import time

from . import gpus
from .clean_env import run_environment
from .frames import Frame
from .ops import Progress

_WITHIN_S = 60.0
_VARIABLES = (
    "CUDA_", "NCCL_", "TORCH", "PYTORCH_", "TRITON_", "OMP_", "HF_", "LD_", "PYTHON", "FLASHINFER_",
)  # fmt: skip
_SECRET = ("TOKEN", "SECRET", "KEY", "PASSWORD")

_ASK = """
import importlib.metadata as metadata, importlib.util, json, platform, re, sys
packages = {}
for found in metadata.distributions():
    name = found.metadata["Name"]
    if name and name.lower() not in packages:
        packages[name.lower()] = {"version": found.version, "from": str(found.locate_file(""))}
torch = {}
spec = importlib.util.find_spec("torch")
if spec and spec.submodule_search_locations:
    try:
        with open(list(spec.submodule_search_locations)[0] + "/version.py") as file:
            for key, value in re.findall(r"(?m)^(\\w+)[^=\\n]*= '([^']*)'", file.read()):
                torch[key] = value
    except OSError:
        pass
print(json.dumps({"packages": packages, "torch": torch, "python": platform.python_version(),
                  "executable": sys.executable}))
"""


def environment(args: Frame, _progress: Progress) -> Frame:
    """The fingerprint; what cannot be had is None or missing, and `error` says why."""
    env = run_environment(
        dict(args.get("env") or {}), path_first=list(args.get("path_first") or ()), python_path=[]
    )
    answer, error = _asked(args.get("python") or "python3", env)
    seen = gpus.sample_gpus({}, lambda _news: None)["samples"]
    return {
        "at": time.time(),
        "packages": answer.get("packages", {}),
        "python": answer.get("python"),
        "executable": answer.get("executable"),
        "torch": answer.get("torch", {}).get("__version__"),
        "cuda": answer.get("torch", {}).get("cuda"),
        "driver": _driver(),
        "kernel": os.uname().release,
        "gpus": [item.get("name") for item in seen],
        "architectures": _architectures(seen),
        "variables": _variables(env),
        "caches": {path: size_of(path) for path in dict.fromkeys(cache_folders(env).values())},
        "error": error,
    }


def _asked(python: str, env: dict[str, str]) -> tuple[Frame, str | None]:
    path = shutil.which(python, path=env["PATH"])
    if path is None:
        return {}, f"{python} is not there"
    try:
        done = subprocess.run(
            [path, "-c", _ASK], env=env, capture_output=True, timeout=_WITHIN_S, check=True
        )
        answer: Frame = json.loads(done.stdout.splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError) as exc:
        return {}, f"{path} does not say: {exc}"
    return answer, None


def _driver() -> str | None:
    try:
        with open("/proc/driver/nvidia/version", encoding="utf-8", errors="replace") as file:
            words = file.readline().split()
    except OSError:
        return None
    return next((word for word in words if word[:1].isdigit() and "." in word), None)


def _variables(env: dict[str, str]) -> dict[str, str]:
    """Those that change how a job computes; never one whose name speaks of a secret."""
    return {
        name: value
        for name, value in sorted(env.items())
        if name.startswith(_VARIABLES) and not any(word in name for word in _SECRET)
    }


def cache_folders(env: dict[str, str]) -> dict[str, str]:
    """Where each kind of compiled kernels is kept: as its variable says, or in the usual place."""
    home = env["HOME"]
    usual = f"/tmp/torchinductor_{env['USER']}"  # noqa: S108  where torch itself keeps it
    workspace = env.get("FLASHINFER_WORKSPACE_BASE") or home
    found = {
        "inductor": env.get("TORCHINDUCTOR_CACHE_DIR") or usual,
        "triton": env.get("TRITON_CACHE_DIR") or f"{home}/.triton",
        "cuda": env.get("CUDA_CACHE_PATH") or f"{home}/.nv/ComputeCache",
        "flashinfer": f"{workspace}/.cache/flashinfer",
    }
    return {kind: os.path.normpath(path) for kind, path in found.items()}


def size_of(path: str) -> Frame | None:
    """Size and age of a cache; None where there is none."""
    if not os.path.isdir(path):
        return None
    size = count = 0
    newest: float | None = None
    for folder, _, names in os.walk(path):
        for name in names:
            try:
                found = os.lstat(os.path.join(folder, name))
            except OSError:
                continue
            size += found.st_size
            count += 1
            newest = max(newest or 0.0, found.st_mtime)
    return {"bytes": size, "files": count, "newest_at": newest}


def _architectures(seen: list[Frame]) -> list[str]:
    """`sm_90` and the like of the GPUs seen here; empty where the driver does not tell."""
    return sorted({one["extra"]["architecture"] for one in seen if "architecture" in one["extra"]})


OPS = {"environment": environment}
