"""daemon run, start, stop and status."""

import argparse
import contextlib
import os
from pathlib import Path

from orchestrator.api.client import Client
from orchestrator.api.location import LOG_NAME, Location, all_notes, daemon_socket, locate_daemon
from orchestrator.cli import output
from orchestrator.cli.reach import location_of, running_client, warn_if_outdated
from orchestrator.cli.reach import start as start_daemon
from orchestrator.core.errors import NoDaemon, OrchError


def run(options: argparse.Namespace) -> int:
    """Be the daemon until it is told to end."""
    from orchestrator.daemon.listen import Listen
    from orchestrator.daemon.main import main

    listen = None
    if options.listen:
        listen = Listen(address=options.listen, cert=options.tls_cert, key=options.tls_key)
    return main(str(location_of(options).inventory), listen)


def start(options: argparse.Namespace) -> int:
    """Start the daemon in the background; one that runs already is as good."""
    location = location_of(options)
    try:
        client = running_client(location)
    except NoDaemon:
        client = start_daemon(location)
    return _print(client.get("/v1/daemon"), options)


def stop(options: argparse.Namespace) -> int:
    """End the daemon and wait until it has gone; runs go on."""
    from orchestrator.cli.ending_daemon import end_daemon

    output.say(end_daemon(_location(options)))
    return 0


def status(options: argparse.Namespace) -> int:
    """Say whether the daemon runs, and where; 1 where it does not. Starts none."""
    if options.all:
        return _status_of_all(options)
    location = _location(options)
    socket = daemon_socket(location)
    try:
        view = Client(socket).daemon_view()
    except NoDaemon:
        view = {"running": False, "pid": None, "socket": str(socket)}
    return _print(view, options)


def _location(options: argparse.Namespace) -> Location:
    """Also of an inventory that was moved or removed: its daemon lives on until it is ended."""
    return locate_daemon(getattr(options, "config", None), os.environ, Path.cwd())


def _status_of_all(options: argparse.Namespace) -> int:
    views = []
    for said in all_notes(os.environ):
        view = {"running": False, **said, "pid": None}
        with contextlib.suppress(OrchError):
            view = Client(said["socket"]).daemon_view()
        views.append(view)
    if options.json:
        output.print_json({"daemons": views})
        return 0
    rows = [
        [str(view["pid"] or "-"), "running" if view["running"] else "gone", str(view["inventory"])]
        for view in views
    ]
    output.say(*output.table(("PID", "STATE", "INVENTORY"), rows))
    return 0


def _print(view: dict[str, object], options: argparse.Namespace) -> int:
    if options.json:
        output.print_json(view)
    elif not view["running"]:
        output.say(f"no daemon runs; `orch daemon start` starts one at {view['socket']}")
    else:
        output.say(*lines_of(view))
        warn_if_outdated(view)
    return 0 if view["running"] else 1


def lines_of(view: dict[str, object]) -> list[str]:
    """What `daemon status` prints of a daemon that runs."""
    lines = [f"daemon {view['pid']} at {view['socket']}"]
    lines += [
        f"  {name:<11}{view[key]}"
        for name, key in (("inventory", "inventory"), ("state", "state_folder"))
        if view.get(key)
    ]
    if view.get("state_folder"):
        lines.append(f"  {'log':<11}{Path(str(view['state_folder']), LOG_NAME)}")
    if view.get("leases"):
        lines.append(f"  {'store':<11}{view['store']}")
    leases = view.get("leases")
    leases = leases if isinstance(leases, list) else []
    width = max((5, *(len(lease["host"]) for lease in leases)))
    for lease in leases:
        who = "this daemon" if lease["here"] else f"pid {lease['pid']} on {lease['machine']}"
        late = "" if lease["left_s"] > 0 else ", which does not renew its lease"
        lines.append(f"  host {lease['host']:<{width}} {who}{late}")
    if view.get("inventory_error"):
        lines += ["  the inventory on disk has faults, the last good one is used:"]
        lines += [f"    {line}" for line in str(view["inventory_error"]).splitlines()]
    sinks = view.get("sinks")
    sinks = sinks if isinstance(sinks, list) else []
    width = max((5, *(len(sink["name"]) for sink in sinks)))
    for sink in sinks:
        waiting = f", {sink['pending']} waiting" if sink["pending"] else ""
        error = f": {sink['error']}" if sink["error"] else ""
        lines.append(f"  sink {sink['name']:<{width}} {sink['state']}{waiting}{error}")
    faults = view.get("environment_faults")
    lines += [f"  values     {fault}" for fault in (faults if isinstance(faults, list) else [])]
    return lines + _needed(view)


def _needed(view: dict[str, object]) -> list[str]:
    """What has no value, who waits for it, and the two places to put it; nothing where all has."""
    needs, users = view.get("needs"), view.get("needed_by")
    if not isinstance(needs, list) or not needs:
        return []
    users = users if isinstance(users, dict) else {}
    said = [f"{name} ({', '.join(users[name])})" if users.get(name) else name for name in needs]
    file = f", or put {'it' if len(needs) == 1 else 'them'} into {view.get('env_file')} (mode 0600)"
    return [
        *(f"  {'needs' if number == 0 else '':<11}{one}" for number, one in enumerate(said)),
        f"  {'':<11}export {'it' if len(needs) == 1 else 'them'} and run any command again"
        f"{file if view.get('env_file') else ''}",
    ]
