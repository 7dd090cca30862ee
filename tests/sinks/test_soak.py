"""A daemon killed at any moment while it sends: no alert lost, none new under another id."""

import asyncio
import os
import random
import signal
import sys
from pathlib import Path

from orchestrator.clock import SystemClock
from orchestrator.sinks import Outbox, Rack
from orchestrator.store import Store
from tests.sinks.alerts import SECRET
from tests.sinks.conftest import OPS
from tests.sinks.receiver import Answer, Receiver

_DAEMON = """
import asyncio, os, sys
from pathlib import Path
from orchestrator.clock import SystemClock
from orchestrator.core.decide.decision import Decision
from orchestrator.sinks import Outbox, Rack
from orchestrator.store import Store
from tests.sinks.alerts import SECRET, outgoing
from tests.sinks.conftest import OPS
from tests.store.nouns import draft

async def main():
    clock = SystemClock()
    store = await Store.open(Path(sys.argv[1]), clock)
    values = {"URL": sys.argv[2], "SECRET": SECRET}
    outbox = Outbox(store.deliveries, Rack(clock).sinks((OPS,)), clock, values.get)
    sending = asyncio.create_task(outbox.run())
    while True:
        run = await store.runs.create(draft())
        name = f"i{run.number:04d}"
        two = (outgoing(name), outgoing(name, status="resolved"))
        await store.apply(Decision(run=run, outgoing=two))
        os.write(1, name.encode() + b"\\n")
        await asyncio.sleep(0.005)

asyncio.run(main())
"""


async def test_kills_lose_no_alert(tmp_path: Path) -> None:
    """Over kills, refusals and cut connections every stored alert arrives, in order, as itself."""
    rng = random.Random(3)
    kinds = [Answer(), Answer(), Answer(status=500), Answer(cut="before")]
    script = [rng.choice(kinds) for _ in range(40)]
    receiver = await Receiver(*script).start()
    promised: list[str] = []
    for _ in range(6):
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            _DAEMON,
            str(tmp_path),
            receiver.url,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(Path.cwd())},
        )
        assert child.stdout is not None
        lines = [await child.stdout.readline() for _ in range(rng.randrange(2, 12))]
        promised += [line.decode().strip() for line in lines]
        await asyncio.sleep(rng.random() * 0.05)
        child.send_signal(signal.SIGKILL)
        promised += (await child.stdout.read()).decode().split("\n")[:-1]
        await child.wait()
    clock = SystemClock()
    store = await Store.open(tmp_path, clock)
    values = {"URL": receiver.url, "SECRET": SECRET}
    outbox = Outbox(store.deliveries, Rack(clock).sinks((OPS,)), clock, values.get)
    sending = asyncio.create_task(outbox.run())
    async with asyncio.timeout(40):
        while await store.deliveries.pending():
            await asyncio.sleep(0.05)
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    await store.close()
    await receiver.stop()
    seen: dict[str, list[str]] = {}
    for request in receiver.taken:
        for alert in request.document["alerts"]:
            incident = alert["annotations"]["command"].rpartition(" ")[2]
            seen.setdefault(incident, []).append(alert["status"])
    assert set(promised) <= set(seen)
    for statuses in seen.values():
        assert statuses.index("firing") < statuses.index("resolved")
        assert sorted(statuses, key=["firing", "resolved"].index) == statuses
    bodies: dict[str, set[bytes]] = {}
    for request in receiver.requests:
        bodies.setdefault(request.headers["webhook-id"], set()).add(request.body)
    assert {len(one) for one in bodies.values()} == {1}
