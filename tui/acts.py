"""What a person can have done: asked first where it costs something, then told as it goes.

Everything goes through the daemon or the command line; nothing here reaches a host.
"""

import os
import shlex
import subprocess
from collections.abc import Mapping
from typing import Any

from textual.app import App, SuspendNotSupported

from orchestrator.api.messages import RunView
from orchestrator.core.errors import ApiError, OrchError
from tui import bridge, keys, small_acts, words
from tui.cells import Cell
from tui.fleet import LIVE, Fleet, Sight
from tui.history import earlier_releases
from tui.messages import ActionWanted, RunOpened
from tui.options import Options
from tui.screens.windows import Activity, AskWhy, Choose, Confirm
from tui.source import Source
from tui.text import harmless

Message = dict[str, Any]
SHELL = ("/bin/sh", "-c", "command -v bash >/dev/null 2>&1 && exec bash -l; exec sh -l")


class Acts:
    """Does one thing after the other, in workers of the app."""

    def __init__(self, app: App[None], source: Source, options: Options) -> None:
        self._app, self._source, self._options = app, source, options

    async def perform(self, wanted: ActionWanted, sight: Sight) -> None:
        """Do what is wanted, or say why not."""
        if keys.by_id(wanted.action).changes and self._options.read_only:
            self._refuse("The dashboard was started with --read-only.")
            return
        try:
            await self._perform(wanted, sight)
        except small_acts.NothingToDo as error:
            self._refuse(error.message)
        except OrchError as error:
            self._app.notify(harmless(str(error)), severity="error", timeout=20)

    async def _perform(self, wanted: ActionWanted, sight: Sight) -> None:
        run = sight.fleet.runs.get(wanted.run or "") if sight.fleet else None
        match wanted.action:
            case "start_daemon":
                await self._start_daemon(sight)
            case "edit":
                await self._edit(sight)
            case "shell":
                self._shell(wanted.target)
            case "ack" | "silence" | "expire" | "bundle" | "end":
                await small_acts.perform(self._app, self._source, wanted, sight.fleet)
            case "stop" | "attach":
                if run is None:
                    self._refuse("There is no run under the cursor.")
                elif wanted.action == "stop":
                    await self._stop(run)
                else:
                    self._attach(run)
            case "deploy" | "run" | "rollback":
                job = await self._job(run, sight.fleet)
                if job is not None and sight.fleet is not None:
                    await self._for_job(wanted.action, job, sight.fleet)
            case other:
                raise AssertionError(other)

    async def _for_job(self, action: str, job: str, fleet: Fleet) -> None:
        match action:
            case "deploy":
                await self._deploy(job)
            case "run":
                await self._run(job, fleet)
            case _:
                await self._rollback(job)

    def _refuse(self, why: str) -> None:
        self._app.notify(why, severity="warning")

    async def _job(self, run: RunView | None, fleet: Fleet | None) -> str | None:
        """The job of the run under the cursor, the only one, or the one that is chosen."""
        if run is not None:
            return run["job"]
        jobs = fleet.jobs() if fleet else []
        if not jobs:
            self._refuse("The inventory has no job, or no daemon tells of one.")
            return None
        if len(jobs) == 1:
            return jobs[0]
        return await self._app.push_screen_wait(Choose("Which job?", jobs))

    # --- through the daemon ----------------------------------------------------------------------

    async def _deploy(self, job: str) -> None:
        planned: list[Cell] = []
        async for message in bridge.iterate(
            lambda: self._source.stream("/v1/deploy", {"jobs": [job], "dry_run": True})
        ):
            planned += words.message_lines(message)
        planned.append(Cell("A run that lives keeps the release it was started with.", "muted"))
        if await self._app.push_screen_wait(Confirm(f"Deploy {job}?", planned, "deploys")):
            await self._follow(f"deploy {job}", "/v1/deploy", {"jobs": [job], "dry_run": False})

    async def _run(self, job: str, fleet: Fleet) -> None:
        mine = [one for one in fleet.runs.values() if one["job"] == job]
        live = next((one["id"] for one in mine if one["state"] in LIVE), None)
        lines = [Cell("What differs from the release on the target is deployed first.", "muted")]
        if live:
            lines.append(Cell(f"{live} lives: preflight refuses unless it is stopped.", "warn"))
        wish = await self._app.push_screen_wait(AskWhy(f"Launch {job}?", lines, lives=live))
        if wish is None:
            return
        body = {
            "job": job,
            "why": wish.why,
            "replace": wish.replace,
            "env": {},
            "args": [],
            "force": False,
            "deploy": True,
        }
        last = await self._follow(f"run {job}", "/v1/run", body, close_on="stored")
        if last is not None and last["kind"] == "stored":
            self._app.post_message(RunOpened(last["run"]["id"]))

    async def _stop(self, run: RunView) -> None:
        if run["state"] not in LIVE:
            self._refuse(f"{run['id']} has ended already: {run['state']}.")
            return
        lines = [
            Cell(f"{run['id']} on {run['target']}, tmux session {run['session']}", "strong"),
            Cell("Its programs get SIGTERM, and SIGKILL after the grace period."),
            Cell(
                f"What it did since its last checkpoint is lost (step {run['step'] or '-'}).",
                "warn",
            ),
        ]
        if await self._app.push_screen_wait(Confirm(f"Stop {run['id']}?", lines, "stops it")):
            path = f"/v1/runs/{run['id']}/stop"
            await self._follow(f"stop {run['id']}", path, {"grace_s": None})

    async def _rollback(self, job: str) -> None:
        found = await bridge.in_thread(
            lambda: self._source.ask("GET", "/v1/releases", query={"job": job})
        )
        names = earlier_releases(found["releases"])
        if not names:
            self._refuse(f"There is no release of {job} before the current one.")
            return
        chosen = await self._app.push_screen_wait(Choose(f"{job}: which release?", names))
        if chosen is None:
            return
        lines = [Cell(f"{job} runs {chosen} from its next launch on; runs that live keep theirs.")]
        if await self._app.push_screen_wait(Confirm(f"Roll back {job}?", lines, "rolls back")):
            body = {"job": job, "release": chosen}
            said = await bridge.in_thread(lambda: self._source.ask("POST", "/v1/rollback", body))
            self._app.notify(f"{job} is at {str(said['current'])[:8]} now.")

    async def _follow(
        self, title: str, path: str, body: Message, *, close_on: str = ""
    ) -> Message | None:
        """Show a stream's messages to its end; the last one, or None where it failed.

        The window may be closed before: it goes on, and says at its end how it went.
        """
        window = Activity(title)
        await self._app.push_screen(window)
        last: Message | None = None
        try:
            async for message in bridge.iterate(lambda: self._source.stream(path, body)):
                last = message
                window.tell(words.message_lines(message), words.progress_text(message))
        except OrchError as error:
            window.tell(_error_lines(error))
            self._ended(window, title, "failed")
            return None
        if last is not None and last["kind"] == close_on and window.is_current:
            window.dismiss(True)
        else:
            self._ended(window, title, "done")
        return last

    def _ended(self, window: Activity, title: str, word: str) -> None:
        window.end(word)
        if not window.is_attached:
            told = window.lines[-1].text if window.lines else ""
            severity = "error" if word == "failed" else "information"
            self._app.notify(told, title=f"{title}: {word}", severity=severity)  # type: ignore[arg-type]  # one of Textual's words

    # --- through the command line ----------------------------------------------------------------

    async def _start_daemon(self, sight: Sight) -> None:
        if sight.connected:
            self._refuse("A daemon is running already.")
            return
        if not self._options.orch:
            self._refuse("A replay has no daemon.")
            return
        self._app.notify("Starting the daemon ...")
        argv = [*self._options.orch, "daemon", "start"]
        ran = await bridge.in_thread(
            lambda: subprocess.run(
                argv, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
            )
        )
        if ran.returncode:
            said = harmless(ran.stderr.strip() or f"It left with {ran.returncode}.")
            self._app.notify(said, title="The daemon did not start", severity="error", timeout=30)

    def _attach(self, run: RunView) -> None:
        if run["state"] not in LIVE:
            self._refuse(f"{run['id']} has ended: {run['state']}. Its log is here.")
            return
        self._become("attach", run["id"])

    def _shell(self, target: str | None) -> None:
        if target is None:
            self._refuse("There is no target under the cursor.")
            return
        self._become("exec", target, "--", *SHELL)

    def _become(self, *arguments: str) -> None:
        """Give the terminal to `orch ...`, and come back when it ends."""
        if not self._options.orch:
            self._refuse("A replay has no terminal to go to.")
            return
        self._give_terminal([*self._options.orch, *arguments])

    def _give_terminal(self, argv: list[str], environ: Mapping[str, str] | None = None) -> None:
        try:
            with self._app.suspend():
                ran = subprocess.run(argv, check=False, env=environ)
        except SuspendNotSupported:
            self._refuse(f"There is no terminal here. Elsewhere: {shlex.join(argv[-2:])}")
            return
        except OSError as error:
            self._app.notify(f"{argv[0]}: {error.strerror}", severity="error")
            return
        self._app.refresh()
        if ran.returncode:
            self._refuse(f"`{shlex.join(argv[-2:])}` left with {ran.returncode}.")

    async def _edit(self, sight: Sight) -> None:
        path = sight.fleet.daemon.get("inventory") if sight.fleet else self._options.name
        if not self._options.orch or not path:
            self._refuse("A replay has no inventory.")
            return
        editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
        self._give_terminal([*shlex.split(editor), str(path)])


def _error_lines(error: OrchError) -> list[Cell]:
    lines = [Cell(harmless(error.message), "bad")]
    if error.remedy:
        lines.append(Cell(harmless(error.remedy), "strong"))
    if isinstance(error, ApiError):
        lines += [Cell(harmless(str(problem)), "bad") for problem in error.problems]
        refused = [check for check in error.checks if not check.get("ok")]
        lines += [line for check in refused for line in words.check_lines(check)]
    return lines
