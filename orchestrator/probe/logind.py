"""Whether systemd's logind ends what a user leaves behind at logout, and the way out of its reach.

Owns two questions to the system and the words of systemd-run. A scope of the user's own manager
survives a logout only where that manager does: where the user lingers.
"""

import os
import pwd
import shutil
import subprocess

LINGERING = "/var/lib/systemd/linger"
WITHIN_S = 5.0
_SCOPE = ("systemd-run", "--user", "--scope", "--quiet", "--collect", "--")


def scope_words() -> list[str]:
    """What stands before a command that must outlive the login; nothing where it does anyway."""
    return list(_SCOPE) if kills_at_logout() and lingers() else []


def kills_at_logout() -> bool:
    """Whether logind ends the processes of this user with the last login of theirs."""
    if os.getuid() == 0 or shutil.which("loginctl") is None or shutil.which(_SCOPE[0]) is None:
        # Root is excluded by logind itself, and nothing can be asked without these.
        return False
    argv = ["loginctl", "show-session", "--property=KillUserProcesses", "--value"]
    try:
        done = subprocess.run(argv, capture_output=True, timeout=WITHIN_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 and done.stdout.strip() == b"yes"


def lingers(folder: str = LINGERING) -> bool:
    """Whether this user's manager runs without a login."""
    return os.path.exists(os.path.join(folder, user()))


def user() -> str:
    """The name of this user; the number where it has none."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
