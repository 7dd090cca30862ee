"""Builds the launch spec of an attempt and asks the probe to start or end it.

Owns what an attempt's program gets: its words, its working folder, its environment. Starts no
process itself and reads no environment: secrets come in as arguments and leave in the call alone.
"""

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Protocol

from orchestrator.core.command import quote, shell_script
from orchestrator.core.errors import LaunchError
from orchestrator.core.model import Adoption, Job, Release, Run, Severity
from orchestrator.core.model.labels import alert_labels
from orchestrator.core.parse.secret_forms import wire_forms
from orchestrator.launch.configuration import asked
from orchestrator.link.calls import CallFailed

_LAUNCH_WITHIN_S = 60.0
_END_SLACK_S = 60.0
_ACK_WITHIN_S = 10.0
ACKNOWLEDGED_WITHIN_S = 60.0
"""After that a relay alerts itself; a daemon that lives takes two seconds at most."""
MOST_FORMS_CHARS = 1 << 20
"""Of what a relay is told to cover; beyond it only values as they are, and their lines."""


class Caller(Protocol):
    """What a launch needs of a link: calls of the probe's ops, each with a deadline."""

    async def call(self, op: str, *, timeout_s: float, **args: Any) -> Any:
        """The op's value; OrchError where it fails or the link does."""
        ...


def attempt_dir(run: Run) -> str:
    """Folder of the run's newest attempt, on the target."""
    return f"{run.directory}/attempt-{run.attempt}"


def launch_spec(
    job: Job,
    run: Run,
    release: Release | None,
    secrets: Mapping[str, str],
    sinks: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """The LaunchSpec of the run's newest attempt (its keys: probe/frames.py).

    The environment holds the job's variables, then the run's own, then the secrets. Without a
    release the working folder is the job's workdir. `sinks`: whom its relay may alert itself.
    """
    folder = release.path if release is not None else job.workdir
    return {
        "run": run.id,
        "uid": run.uid,
        "attempt": run.attempt,
        "run_dir": run.directory,
        "attempt_dir": attempt_dir(run),
        "session": run.session,
        "socket": job.target.tmux_socket,
        "argv": command_argv(job.command, run.args),
        "env": {**job.env, **run.env, **secrets},
        "asked": asked(run, secrets),
        "cwd": folder,
        "path_first": path_first(job, release),
        "python_path": [str(PurePosixPath(folder).parent)] if release is not None else [],
        **({"own_alert": _own_alert(job, run, secrets, sinks)} if sinks else {}),
    }


def _own_alert(
    job: Job, run: Run, secrets: Mapping[str, str], sinks: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    return {
        "id": end_message(run),
        "within_s": ACKNOWLEDGED_WITHIN_S,
        "labels": end_labels(job, run),
        "secrets": list(job.secrets),
        "forms": wire_forms(secrets.values(), MOST_FORMS_CHARS),
        "sinks": list(sinks),
    }


def end_message(run: Run) -> str:
    """Id of the message that the run's present attempt ended badly, whoever sends it."""
    return f"{run.id}.{run.uid}.{run.attempt}-end"


def end_labels(job: Job, run: Run) -> dict[str, str]:
    """Labels of the alert that an attempt ended badly, as far as they are known before."""
    return alert_labels(
        job,
        job.target_named(run.target),
        alertname="failed_exit",
        severity=Severity.CRITICAL,
        run=run.id,
        attempt=run.attempt,
    )


def path_first(job: Job, release: Release | None) -> list[str]:
    """Folders before the standard PATH: the release's environment, the target's interpreter."""
    folders = []
    if release is not None and job.setup is not None:
        folders.append(f"{release.path}/.venv/bin")
    if job.target.python_folder is not None:
        folders.append(job.target.python_folder)
    return folders


def command_argv(command: str | tuple[str, ...], extra: tuple[str, ...]) -> list[str]:
    """The words to run: a string goes through `sh -c`, a list is run as it is.

    Extra words of `orch run -- ARGS` come last, as whole words in either form.
    """
    if isinstance(command, str):
        words = [quote(word).decode("utf-8", "surrogateescape") for word in extra]
        return ["sh", "-c", shell_script(" ".join([command, *words]))]
    return [*command, *extra]


async def launch(caller: Caller, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Start the attempt of a spec, or find it started: asking again is safe.

    Value: `attempt_dir`, `already`, `session`, `pid`, `started_at`. LaunchError: nothing runs.
    """
    try:
        answer: dict[str, Any] = await caller.call("launch", timeout_s=_LAUNCH_WITHIN_S, **spec)
    except CallFailed as exc:
        raise LaunchError(exc.message, remedy=exc.remedy) from exc
    return answer


async def acknowledge(caller: Caller, run: Run) -> None:
    """Let the relay of the run's newest attempt know that its end is stored."""
    await caller.call("acknowledge", timeout_s=_ACK_WITHIN_S, attempt_dir=attempt_dir(run))


async def adopt(caller: Caller, job: Job, run: Run, adoption: Adoption) -> dict[str, Any]:
    """Follow what somebody else started as the run's attempt; the answer is that of `launch`."""
    try:
        answer: dict[str, Any] = await caller.call(
            "adopt",
            timeout_s=_LAUNCH_WITHIN_S,
            run=run.id,
            uid=run.uid,
            attempt=run.attempt,
            attempt_dir=attempt_dir(run),
            session=run.session,
            socket=job.target.tmux_socket,
            what=adoption.what,
            take_pipe=adoption.take_pipe,
        )
    except CallFailed as exc:
        raise LaunchError(exc.message, remedy=exc.remedy) from exc
    return answer


async def end(
    caller: Caller, job: Job, run: Run, *, grace_s: float, gpus: Sequence[str] = ()
) -> dict[str, Any]:
    """End the run's processes: SIGTERM, and after `grace_s` seconds SIGKILL; the session too.

    `gpus` are UUIDs of those that it is known to use. Value: `ended`, `remaining`, `gpus` (indexes
    of those that were looked at), `gpus_free_after_s`, `gpu_holders`. Ending what ended is fine.
    """
    answer: dict[str, Any] = await caller.call(
        "end",
        timeout_s=grace_s + _END_SLACK_S,
        run=run.id,
        uid=run.uid,
        session=run.session,
        socket=job.target.tmux_socket,
        attempt_dir=attempt_dir(run),
        grace_s=grace_s,
        gpus=list(gpus),
    )
    return answer
