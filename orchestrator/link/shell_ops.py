"""The ops of a probe that the plain shell can do, on a target without Python.

Owns what each op's script is given and how its answer is read. What cannot be done so is refused
with the remedy: a Python there.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

from orchestrator.core.command import STANDARD_PATH, Command, quote
from orchestrator.core.model import Target
from orchestrator.core.parse.nvidia_smi import QUERY, SmiOutput, looks_free, parse_samples
from orchestrator.core.parse.tmux import PANES_FORMAT, Session, parse_sessions
from orchestrator.core.runtimes import tmux_words
from orchestrator.link import shell_scripts as scripts
from orchestrator.link.calls import CallFailed
from orchestrator.link.shell_runs import KNOWN, known
from orchestrator.probe.frames import pack
from orchestrator.probe.run_folders import highest_of
from orchestrator.transport.base import Completed, Transport

LOST = (
    "what is lost by it: output and exit are seen some seconds late, a code above 128 may be a "
    "signal's, GPUs come without their programs, a run ends with its tmux server, and nothing can "
    "be deployed or copied there"
)
REMEDY = "Install Python 3.10 or newer there, or say `python: PATH` for the target."

SKEW_S = 60.0

_MARKS = {"@orch_run": "run", "@orch_uid": "uid", "@orch_attempt": "attempt_dir"}
_NO_SERVER = ("no server running", "error connecting to")


class ShellOps:
    """What can be asked of one target without Python."""

    def __init__(self, target: Target, transport: Transport) -> None:
        self._target, self._transport = target, transport

    async def run(
        self, script: str, *words: str, stdin: bytes = b"", within_s: float = 30.0
    ) -> Completed:
        """A script with its arguments, to its end."""
        command = Command(argv=("/bin/sh", "-c", script, "sh", *words))
        return await self._transport.run(command, stdin=stdin, timeout_s=within_s)

    async def do(self, op: str, args: Mapping[str, Any]) -> Any:
        """The value of an op; CallFailed where the shell cannot do it, or it failed."""
        match op:
            case "sessions":
                return {"sessions": [_session_view(one) for one in await self.sessions()]}
            case "gpus":
                return await self.gpus()
            case "launch":
                return await self._launch(args)
            case "end":
                return await self._end(args)
            case "preflight":
                return await self._preflight(args["checks"])
            case "processes":
                return {"processes": []}
            case "runs_highest":
                names = await self.run('ls -1 "$1/runs" 2>/dev/null', str(args["workdir"]))
                found = names.stdout.decode("utf-8", "replace").splitlines()
                return {"number": highest_of(found, str(args["job"]))}
            case "runs_known":
                return await self._known(f"{args['workdir']}/runs", *map(str, args["names"]))
            case "read":
                return await self._read(args)
            case _:
                raise self.failed(op, f"`{op}` needs Python 3.10 on the target, {self._lacking()}")

    def _lacking(self) -> str:
        named = self._target.python
        return f"and `python: {named}` is none" if named else "which has none"

    def failed(self, op: str, why: str, remedy: str = REMEDY) -> CallFailed:
        """An op that the shell could not do."""
        name = self._target.name
        return CallFailed(
            f"{name}: {why}.", target=name, op=op, error_type="Refused", remedy=remedy
        )

    async def gpus(self) -> dict[str, Any]:
        """Samples by `nvidia-smi`, without what uses them."""
        found = await self._nvidia_smi()
        samples = [asdict(sample) for sample in found.samples]
        return {"source": "nvidia-smi", "samples": samples, "error": found.complaint}

    async def _nvidia_smi(self) -> SmiOutput:
        argv = ("nvidia-smi", f"--query-gpu={QUERY}", "--format=csv,noheader")
        done = await self._transport.run(Command(argv=argv), timeout_s=20.0)
        return parse_samples(done.stdout.decode("utf-8", "replace"))

    async def sessions(self) -> tuple[Session, ...]:
        """What runs on the target's tmux server."""
        words = (*tmux_words(self._target.tmux_socket), "list-panes", "-a", "-F", PANES_FORMAT)
        done = await self._transport.run(Command(argv=words))
        complaint = done.stderr.decode("utf-8", "replace").strip()
        if done.exit_status and not any(text in complaint for text in _NO_SERVER):
            raise self.failed("sessions", f"tmux: {complaint}", "Install tmux there.")
        return parse_sessions(done.stdout.decode("utf-8", "replace"))

    # --- launch and end --------------------------------------------------------------------------

    async def _launch(self, args: Mapping[str, Any]) -> dict[str, Any]:
        directory = str(args["attempt_dir"])
        record = await self.run('cat "$1/attempt.json" 2>/dev/null', directory)
        if record.stdout.strip():
            return _launched(args, record.stdout, already=True)
        tmux = await self._tmux_words(args)
        done = await self.run(
            scripts.LAUNCH,
            *(directory, _attempt_sh(), _record(args), str(args["cwd"]), *tmux),
            stdin=_spec(args),
            within_s=60.0,
        )
        if done.exit_status != 0:
            why = done.stderr.decode("utf-8", "replace").strip() or "attempt.sh did not start"
            remedy = (
                "Deploy first, or make the folder." if done.exit_status == 65 else "Look there."
            )
            raise self.failed("launch", why.rstrip("."), remedy)
        return _launched(args, done.stdout, already=False)

    async def _tmux_words(self, args: Mapping[str, Any]) -> tuple[str, ...]:
        """The one command sequence that makes the session; CallFailed where its name is taken."""
        name, directory = str(args["session"]), str(args["attempt_dir"])
        there = {one.name: one for one in await self.sessions()}.get(name)
        if there is not None and there.run is None:
            raise self.failed(
                "launch",
                f"A tmux session `{name}` is there already, and orch did not start it",
                f"End it (tmux kill-session -t {name}), or give the job another `session`.",
            )
        if there is not None and not there.dead:
            raise self.failed(
                "launch",
                f"The tmux session `{name}` belongs to {there.run}, which still runs",
                f"Stop it with the inventory that it is from (orch stop {there.run}), or run with "
                "--replace where that is this one.",
            )
        return (*tmux_words(args.get("socket")), *_new_session(name, directory, args, there))

    async def _end(self, args: Mapping[str, Any]) -> dict[str, Any]:
        run_dir = str(PurePosixPath(str(args["attempt_dir"])).parent)
        grace_s = float(args.get("grace_s", 30.0))
        done = await self.run(scripts.END, run_dir, str(round(grace_s)), within_s=grace_s + 40.0)
        lines = dict(line.partition(" ")[::2] for line in done.stdout.decode().splitlines())
        left = [int(pid) for pid in lines.get("left", "").split()]
        ended = {int(pid) for pid in lines.get("ended", "").split()} - set(left)
        return {
            "ended": sorted(ended),
            "remaining": [{"pid": pid, "command": ""} for pid in left],
            "gpus_free_after_s": None,
            "gpu_holders": [],
        }

    # --- looks -----------------------------------------------------------------------------------

    async def _preflight(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        done = await self.run(scripts.PREFLIGHT, str((wanted.get("disk") or {}).get("path") or "/"))
        said = pairs(done)
        checks = [
            {**_check("python", False, f"plain shell; {LOST}", REMEDY), "critical": False},
            _check("tmux", bool(said.get("tmux")), said.get("tmux") or "no tmux", "Install tmux."),
        ]
        if "session" in wanted:
            checks.append(await self._session_free(wanted["session"]["name"]))
        if "workdir" in wanted:
            path, writable = wanted["workdir"]["path"], said.get("writable") == "1"
            text = f"{path} can{'' if writable else 'not'} be written"
            checks.append(
                _check("workdir", writable, text, "Make it, or choose another `workdir`.")
            )
        if "disk" in wanted:
            free = int(said.get("free_kib") or 0) * 1024
            ok = free >= int(wanted["disk"]["min_free_bytes"])
            checks.append(_check("disk", ok, f"{free / 1024**3:.0f} GiB free", "Free some space."))
        if "clock" in wanted:
            skew = float(said.get("time") or 0.0) - float(wanted["clock"]["now"])
            text = f"the clock differs from the daemon's by {skew:+.0f} s"
            checks.append(_check("clock", abs(skew) < SKEW_S, text, "Set it: chronyc makestep."))
        if (wanted.get("gpus") or {}).get("idle"):
            checks.append(await self._gpus_idle())
        if "wrapper_alert" in wanted:
            text = "the run cannot alert itself (wrapper_alert) without Python 3.10"
            checks.append({**_check("wrapper_alert", False, text, REMEDY), "critical": False})
        return {"checks": checks, "versions": {}}

    async def _session_free(self, name: str) -> dict[str, Any]:
        there = [one for one in await self.sessions() if one.name == name]
        taken = [one for one in there if not (one.run and one.dead)]
        remedy = f"End it: tmux kill-session -t {name}, or run with --replace."
        text = f"session {name} is {'taken' if taken else 'free'}"
        return _check("session", not taken, text, remedy)

    async def _gpus_idle(self) -> dict[str, Any]:
        samples = (await self._nvidia_smi()).samples
        busy = [one.index for one in samples if not looks_free(one)]
        text = f"GPUs {busy} hold memory" if busy else f"{len(samples)} GPUs idle"
        return _check("gpus", not busy, text, "`nvidia-smi` on the host says who.")

    async def _known(self, root: str, *names: str) -> dict[str, Any]:
        done = await self.run(KNOWN, root, *names)
        return known(names, done.stdout)

    async def _read(self, args: Mapping[str, Any]) -> dict[str, Any]:
        offset, size = int(args.get("offset") or 0), int(args.get("size", 1 << 20))
        done = await self.run(scripts.READ, str(args["path"]), str(max(0, offset)), str(size))
        if done.exit_status:
            raise self.failed("read", f"{args['path']} cannot be read", "Is it there?")
        total, _, chunk = done.stdout.partition(b"\n")
        return {"data": pack(chunk), "size": int(total)}


def pairs(done: Completed) -> dict[str, str]:
    """Lines `key=value` as a mapping."""
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    return {key: value for key, _, value in (line.partition("=") for line in lines)}


@cache
def _attempt_sh() -> str:
    return Path(__file__).with_name("attempt.sh").read_text()


def _record(args: Mapping[str, Any]) -> str:
    """What attempt.sh puts into attempt.json, without the braces."""
    names = ("run", "uid", "attempt", "session")
    return json.dumps({name: args[name] for name in names})[1:-1]


def _spec(args: Mapping[str, Any]) -> bytes:
    """Shell lines that become the program; read once from a FIFO, so secrets may be in them."""
    env = {
        **(args.get("env") or {}),
        "ORCH_RUN_ID": str(args["run"]),
        "ORCH_ATTEMPT": str(args["attempt"]),
        "ORCH_RUN_DIR": str(args["run_dir"]),
        "TERM": "xterm-256color",
    }
    own_path = env.get("PATH", STANDARD_PATH)
    env["PATH"] = ":".join([*(args.get("path_first") or ()), own_path])
    paths = [*(args.get("python_path") or ()), *filter(None, [env.get("PYTHONPATH")])]
    if paths:
        env["PYTHONPATH"] = ":".join(paths)
    lines = [b"export " + name.encode() + b"=" + quote(value) for name, value in env.items()]
    lines.append(b"unset TMUX TMUX_PANE; cd " + quote(str(args["cwd"])) + b" || exit 126")
    lines.append(b"exec " + b" ".join(quote(word) for word in args["argv"]))
    return b"\n".join(lines) + b"\n"


def _new_session(
    name: str, directory: str, args: Mapping[str, Any], old: Session | None
) -> tuple[str, ...]:
    """tmux's words: a session that stays, its output piped before its program gets the spec."""
    here = f"={name}:"
    words = ["rename-session", "-t", f"={name}", f"{name}-replaced", ";"] if old else []
    script = ("/bin/sh", f"{directory}/attempt.sh", directory, _record(args))
    words += ["new-session", "-d", "-x", "200", "-y", "50", "-s", name, "--", *script]
    words += [";", "set-option", "-t", here, "destroy-unattached", "off"]
    words += [";", "set-option", "-w", "-t", here, "remain-on-exit", "on"]
    for option, key in _MARKS.items():
        words += [";", "set-option", "-t", here, option, str(args[key])]
    log = quote(f"{directory}/output.log").decode()
    words += [";", "pipe-pane", "-t", here, f"exec cat >> {log}"]
    if old:
        words += [";", "kill-session", "-t", f"={name}-replaced"]
    return tuple(words)


def _launched(args: Mapping[str, Any], record: bytes, *, already: bool) -> dict[str, Any]:
    said = json.loads(record)
    return {
        "attempt_dir": args["attempt_dir"],
        "already": already,
        "session": args["session"],
        "pid": said["pid"],
        "started_at": said["started_at"],
    }


def _check(name: str, ok: bool, text: str, remedy: str) -> dict[str, Any]:
    said = None if ok else remedy
    return {"name": name, "ok": ok, "text": text, "remedy": said, "critical": True}


def _session_view(one: Session) -> dict[str, Any]:
    keys = ("name", "dead", "run", "uid", "created")
    return {key: getattr(one, key) for key in keys}
