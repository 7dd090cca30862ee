"""The clean environment in which everything on a target starts.

What a way in (lxc-attach, ssh) happens to leave in the environment must not reach a run.
"""

import os
import pwd

STANDARD_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def base_environment() -> dict[str, str]:
    """HOME, USER, LOGNAME and SHELL as passwd has them, and a standard PATH, LANG and TERM."""
    uid = os.getuid()
    try:
        entry = pwd.getpwuid(uid)
        name, home, shell = entry.pw_name, entry.pw_dir, entry.pw_shell or "/bin/sh"
    except KeyError:
        # A container may run under a UID that its passwd does not know.
        name, home, shell = str(uid), "/", "/bin/sh"
    return {
        "HOME": home,
        "USER": name,
        "LOGNAME": name,
        "SHELL": shell,
        "PATH": STANDARD_PATH,
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
    }


def run_environment(
    own: dict[str, str], *, path_first: list[str], python_path: list[str]
) -> dict[str, str]:
    """The base, then the job's own, with folders put before its PATH and its PYTHONPATH."""
    env = base_environment() | own
    env["PATH"] = ":".join([*path_first, env["PATH"]])
    paths = [*python_path, *filter(None, [env.get("PYTHONPATH")])]
    if paths:
        env["PYTHONPATH"] = ":".join(paths)
    return env


def clean_own_environment() -> None:
    """Make this program's environment the base one, so that a tmux server it starts is clean.

    TMUX_TMPDIR stays: it says where the sockets are, and `tmux attach` obeys it too.
    """
    kept = {key: os.environ[key] for key in ("TMUX_TMPDIR",) if key in os.environ}
    os.environ.clear()
    os.environ.update(base_environment() | kept)
