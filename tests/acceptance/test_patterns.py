"""A program that writes no metrics file: what the patterns find is a course over steps."""

from pathlib import Path

from orchestrator.api.client import Client
from tests.acceptance.conftest import MakeOrch

INVENTORY = """
version: 1
hosts:
  here: {{transport: local}}
targets:
  local: {{host: here}}
jobs:
  plain:
    target: local
    workdir: {folder}/w
    command: [sh, -c, '{program}']
    watch:
      metrics:
        step: 'step (?P<value>\\d+)'
        loss: 'loss=(?P<value>\\S+)'
        rate: 'rate (?P<value>\\S+)'
"""

PROGRAM = (
    "for n in 1 2 3; do echo step $n loss=0.$n; done; "
    "echo step 4; echo rate 12.5; echo loss=nan; until [ -e {go} ]; do sleep 0.1; done"
)


def test_numbers_that_patterns_find_are_kept_over_steps(
    make_orch: MakeOrch, short_folder: Path
) -> None:
    """One value a step, also where step and value stand in two lines; a new daemon has them too."""
    program = PROGRAM.format(go=short_folder / "go")
    orch = make_orch(INVENTORY.format(folder=short_folder, program=program))
    run = orch.json("run", "--detach")["run"]

    def courses() -> list[tuple[int, object, object]]:
        client = Client(Path(orch.json("daemon", "status")["socket"]))
        lines = client.get(f"/v1/runs/{run}/metrics")["metrics"]
        return [(line["step"], line.get("loss", "-"), line.get("rate", "-")) for line in lines]

    wanted = [(1, 0.1, "-"), (2, 0.2, "-"), (3, 0.3, "-"), (4, "-", 12.5), (4, None, "-")]
    orch.until(lambda: courses() == wanted)
    orch("daemon", "stop")
    orch("daemon", "start")
    (short_folder / "go").touch()
    orch("wait", run, "--timeout", "60", timeout_s=90)
    assert courses() == wanted
