"""A user whose programs logind would end at logout: runs start where it does not.

There is no systemd in the lab: what `loginctl` says is played, and `systemd-run` notes its words.
"""

import shlex
from collections.abc import Iterator

import pytest

from tests.acceptance.conftest import MakeOrch, Orch, lab_job
from tests.lab.lab import Lab

pytestmark = pytest.mark.lab

LOGINCTL = "#!/bin/sh\necho yes\n"
SYSTEMD_RUN = """#!/bin/sh
echo "$*" >> /tmp/scopes
while [ "$1" != -- ]; do shift; done
shift
exec "$@"
"""
LINGERING = "/var/lib/systemd/linger"


@pytest.fixture
def killing(lab: Lab) -> Iterator[None]:
    """In container 200 KillUserProcesses is on; nobody lingers yet."""
    for name, text in (("loginctl", LOGINCTL), ("systemd-run", SYSTEMD_RUN)):
        script = lab["200"].root / "usr/local/bin" / name
        script.write_text(text)
        script.chmod(0o755)
    lab["200"].run(["sh", "-c", "mkdir -p /srv/orch && chown nobody /srv/orch"])
    yield
    lab["200"].run(
        ["sh", "-c", f"rm -f /usr/local/bin/loginctl /usr/local/bin/systemd-run {LINGERING}/nobody"]
    )


def job_of_nobody(lab: Lab) -> str:
    """A job that runs as a user without rights."""
    text = lab_job(lab, "python3 -m played steps --count 3")
    return text.replace("container: 200}", "container: 200, user: nobody}")


def doctor(orch: Orch) -> str:
    """What doctor says, whatever it thinks of it."""
    return orch("doctor", check=None, timeout_s=120).stdout


def test_a_run_starts_in_a_scope_of_its_own_where_the_user_lingers(
    lab: Lab, make_orch: MakeOrch, killing: None
) -> None:
    """Without lingering the user's manager would end with the login as well: doctor says so."""
    orch = make_orch(job_of_nobody(lab))
    assert "loginctl enable-linger nobody" in doctor(orch)
    orch("run")
    assert not (lab["200"].root / "tmp/scopes").exists()
    lab["200"].run(["tmux", "kill-server"], check=False)
    lab["200"].run(["sh", "-c", f"mkdir -p {LINGERING} && touch {LINGERING}/nobody"])
    lab["200"].run(["runuser", "-u", "nobody", "--", "tmux", "kill-server"], check=False)
    orch("run")
    words = shlex.split((lab["200"].root / "tmp/scopes").read_text())
    assert words[:6] == ["--user", "--scope", "--quiet", "--collect", "--", "tmux"]
    assert "new-session" in words
    assert orch.json("show", "@1")["state"] == "finished"
    assert "enable-linger" not in doctor(orch)
