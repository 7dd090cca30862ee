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
_HOME_CACHES = ("~/.triton", "~/.nv/ComputeCache", "~/.cache/flashinfer")
_CACHE_VARIABLES = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "CUDA_CACHE_PATH")
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
        "variables": _variables(env),
        "caches": {path: _cache(path) for path in cache_folders(env)},
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


def cache_folders(env: dict[str, str]) -> list[str]:
    """Where compiled kernels are kept: the folders named by variables, and the usual ones."""
    named = [env[name] for name in _CACHE_VARIABLES if env.get(name)]
    home = [path.replace("~", env["HOME"], 1) for path in _HOME_CACHES]
    default = f"/tmp/torchinductor_{env['USER']}"  # noqa: S108  where torch itself keeps it
    return list(dict.fromkeys([*named, *home, default]))


def _cache(path: str) -> Frame | None:
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


OPS = {"environment": environment}
