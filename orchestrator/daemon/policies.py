"""What a decision about a job goes by at this moment.

Owns that the inventory's alerts, people's silences and quiet hours come together. Must not: decide.
"""

from orchestrator.clock import Clock, second_of_day
from orchestrator.core.decide.decision import Policy
from orchestrator.core.decide.quiet import quiet_for_s
from orchestrator.core.model import AlertsSpec, Job
from orchestrator.store.store import Store


async def policy_of(job: Job, alerts: AlertsSpec, store: Store, clock: Clock) -> Policy:
    """The policy of a job now, by the alerts of the inventory; a run that is retold alerts none."""
    now = clock.now()
    quiet_s = quiet_for_s(alerts.quiet_hours, second_of_day(now))
    return Policy(
        job=job,
        alerts=AlertsSpec() if job.retold else alerts,
        silences=await store.silences.list(),
        quiet_until=None if quiet_s is None else now + quiet_s,
    )
