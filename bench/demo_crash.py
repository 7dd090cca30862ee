"""`make demo-crash`: a simulated FX-tracing race from launch to the alert that a receiver got.

The job is a script that prints what PyTorch 2.11 prints; everything else is real: the daemon, tmux,
the log, the detection, the signed webhook and the receiver on loopback.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.lab.receiver import Received, Receiver

PLAYED = Path(__file__).parent.parent / "tests" / "lab" / "jobs" / "played"
INVENTORY = f"""
version: 1
hosts:
  here: {{transport: local}}
targets:
  local: {{host: here, python: {sys.executable}}}
jobs:
  demo:
    target: local
    package: {PLAYED}
    workdir: FOLDER/work
    command: python3 -m played fx_race_crash --lines 60 --after 10 --pause 0.02
    session: orch-demo
alerts:
  sinks:
    ops: {{type: webhook, url_env: ORCH_WEBHOOK_URL, secret_env: ORCH_WEBHOOK_SECRET}}
  routes:
    - {{match: {{}}, to: [ops]}}
"""


def main() -> int:
    """Play the story; 0 where the alert came and its signature fits."""
    with tempfile.TemporaryDirectory(prefix="orch-demo-") as folder, Receiver() as receiver:
        inventory = Path(folder) / "inventory.yaml"
        inventory.write_text(INVENTORY.replace("FOLDER", folder))
        env = {**os.environ, **receiver.env, "XDG_STATE_HOME": f"{folder}/state"}
        orch = [sys.executable, "-m", "orchestrator", "--config", str(inventory)]
        try:
            subprocess.run([*orch, "deploy"], env=env, check=True)
            ran = subprocess.run([*orch, "run", "-m", "make demo-crash"], env=env, check=False)
            alert = receiver.wait_for()[0]
            receiver.verify(alert)
            show(alert)
            print(
                "\nWhat `orch explain` says of it; the demo's folder goes now, and that with it:\n"
            )
            sys.stdout.flush()
            subprocess.run([*orch, "explain", "@1"], env=env, check=True)
        finally:
            subprocess.run([*orch, "daemon", "stop"], env=env, check=False)
            ended = ["tmux", "kill-session", "-t", "=orch-demo"]
            subprocess.run(ended, check=False, stderr=subprocess.DEVNULL)
    return 0 if ran.returncode == 100 else 1


def show(request: Received) -> None:
    """Print the alert as the receiver got it."""
    alert = request.json["alerts"][0]
    print("\nThe alert that the receiver on loopback got; its signature fits:\n")
    for name in ("webhook-id", "webhook-timestamp", "webhook-signature"):
        print(f"  {name}: {request.headers[name]}")
    print(f"  status: {alert['status']}")
    for name, text in alert["labels"].items():
        print(f"  label {name}: {text}")
    for name, text in alert["annotations"].items():
        first, *rest = str(text).splitlines() or [""]
        print(f"  {name}: {first}")
        for line in rest:
            print(f"      {line}")


if __name__ == "__main__":
    sys.exit(main())
