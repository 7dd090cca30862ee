"""What the daemon says to its clients: shapes of every document and stream of the API.

HTTP on a unix socket; documents are JSON, streams are newline-delimited JSON (one message a line,
each with `kind`), `/v1/events` is server-sent events. Times are unix seconds. RUN and INCIDENT in a
path are the user's words (id, prefix, job, @1, -1), percent-encoded.

    GET  /v1/daemon                      DaemonView
    POST /v1/daemon/stop                 {}            the daemon ends; runs are left alone
    PUT  /v1/environment {NAME: value}   {"accepted": [NAME], "replaced": [NAME]}  kept in memory only
    GET  /v1/snapshot[?since=CURSOR]     Snapshot      with since: only what changed after it
    GET  /v1/events                      SSE           event `snapshot` first, then `change` (both Snapshot)
    GET  /v1/runs[?all=1][&job=JOB]      {"runs": [RunView]}      newest first; without all: 20 newest
    GET  /v1/runs/RUN                    RunView
    GET  /v1/runs/RUN/log?[attempt=][offset=][size=][tail=LINES][since=UNIX]
                                         raw bytes; headers X-Orch-Offset, X-Orch-Size, X-Orch-Attempt
    GET  /v1/runs/RUN/follow[?offset=][tail=LINES][since=UNIX]   stream: run, log, gap, incident, link, end
    GET  /v1/runs/RUN/search?words=&way=down|up[&offset=][&attempt=]     stream: progress{attempt, offset}, then
                                         found{attempt, offset} of the nearest line that matches, or none{attempt};
                                         way=all: matches{attempt, offsets: [int]} as they are found, 10000 at most,
                                         then end{attempt, more: bool}
    GET  /v1/runs/RUN/metrics[?since_step=]          {"metrics": [{t, step, loss, ...}]}
    GET  /v1/runs/RUN/wait?until=EXPR&timeout=S      {"reached": bool, "run": RunView, "reason": str,
                                         "incident": IncidentView|null}    core/parse/until.py has the expressions
    GET  /v1/wait?until=incident&timeout=S           likewise, of any run; "run" is null where time was up
    GET  /v1/runs/RUN/gpus               {"samples": [{t, samples}]}  history
    GET  /v1/runs/RUN/timeline           {"run": id, "events": [TimelineEvent]}    oldest first
    GET  /v1/runs/RUN/bundle             a tar.gz; header X-Orch-Archive: {"name", "files", "secrets_removed"}
    GET  /v1/runs/RUN/environment        {"run": id, "looks": [{attempt, moment, at, fingerprint, configuration}]}
                                         first that at its release's `deploy`, with attempt 0
    GET  /v1/runs/RUN/diff[?with=RUN]    {before, after, changes: [{kind, name, text, alarming}], unknown: [str], diff}
                                         without `with`: against the job's last good run before it
    POST /v1/runs/RUN/stop {grace_s}     stream: stopping{run}, stopped{run, ended, remaining, gpus, gpus_free_after_s,
                                         gpu_holders};
                                         of a run that had ended stopped{run, already}; where its target
                                         cannot be reached kept{run}: it is ended there once it can
    POST /v1/deploy {jobs, dry_run}      stream: plan{job, plan}, progress{job, target, stage,
                                         sent_bytes, total_bytes, bytes_per_s},
                                         setup{job, target, line},
                                         deployed{job, target, release, path, switched, seconds}, done
    POST /v1/run {job, why, replace, env, args, force, deploy}
                                         stream: warning{text}, deploy's, stopping{run}, ended{...stop's}, preflight{checks},
                                         launching, stored{run, nodes}; a client that leaves before `launching` gets no
                                         run; `nodes` are the runs of all targets, `run` is that of the first
    POST /v1/repeat {...run's, count, until_crash, cold_cache}
                                         stream: run's for each trial, trial{number, count, crashed, run}, rate{RATE}
    GET  /v1/compare?job=JOB&a=A&b=B     {job, a: {release, RATE}, b: {release, RATE}, p, text}; A and B: a release or RUN
    POST /v1/bisect {job, good, bad, count, env, args}
                                         stream: suspects{releases, next}, repeat's, judged{release, bad, RATE},
                                         found{release, good, bad}
    POST /v1/prune {dry_run, run_age_s}  {dry_run, targets: [{job, target, releases: [digest], runs: [{name, bytes}],
                                         sessions: [name], error}], logs: [run], log_bytes, rows, code: [digest]}
    GET  /v1/cache?job=JOB               {targets: [{job, target, error, cold_start_s, made_with, now: [{kind, path,
                                         bytes, files}], saved: [KEPT], fits}]}    cold_start_s: launch to first step
                                         of the last run with empty caches; fits: name of the one to restore
    POST /v1/cache/save {job}            {targets: [{job, target, error, cold_start_s, kept, dropped: [name]}]}
    POST /v1/cache/clear {job, force}    likewise
    POST /v1/cache/restore {job, name, force}    {targets: [{job, target, error, cold_start_s, restored: KEPT, files,
                                         bytes, there}]}    there: files that stood already and stayed
    POST /v1/adopt {target, what, take_pipe, why}    stream: adopting{pid, command}, stored{run}
    POST /v1/simulate {signature, target}    stream: stored{run}, ended{run, incident},
                                         delivered{status, sinks: [{sink, state, error}]} twice, done
    POST /v1/rollback {job, release}     {"job", "before", "current"}
    GET  /v1/releases?job=JOB            {"releases": [...]}      each deploy and rollback that the daemon did
    GET  /v1/releases/there?job=JOB      {targets: [{job, target, keep, error, current, releases: [{digest, at, files,
                                         bytes, in_use, by, commit, branch, dirty, untracked, diff, inventory,
                                         last_run: {run, state} | null}]}]}    asked of the targets; diff: its path there
    GET  /v1/incidents[?all=1][&run=RUN] {"incidents": [IncidentView]}
    GET  /v1/incidents/INCIDENT          IncidentView
    GET  /v1/incidents/INCIDENT/explain  {"text": str, "markdown": str, ...}    core/explain/telling.py has all keys;
                                         of a RUN without one {run, incident: null, text, markdown}
    POST /v1/incidents/INCIDENT/ack      IncidentView
    GET  /v1/silences[?all=1]            {"silences": [SilenceView]}     without all: those that last
    POST /v1/silences {match, for_s, why}            SilenceView     for_s: 30 days at most
    POST /v1/silences/ID/expire          SilenceView   ID may be a unique prefix
    POST /v1/alert-test {sink}           {"results": [{sink, ok, text}]}
    GET  /v1/doctor                      {"checks": [{name, ok, text, remedy, critical}]}
    GET  /v1/top                         {"targets": [TargetView]}
    POST /v1/targets/TARGET/end-process {pid, start, command, grace_s}
                                         {pid, command, ended: bool}    pid, start and command as a GPU's
                                         `processes` has them; 400 where another one has the PID by now
    POST /v1/targets/TARGET/prune {job, run_age_s, dry_run}
                                         an entry of `targets` of POST /v1/prune: of daemons that share a fleet
    POST /v1/hosts/HOST/give-up {to}     {}    of daemons that share a fleet: another one drives the host from now on
    GET  /healthz                        "ok"       GET /metrics   Prometheus text

KEPT: name, how (`saved`, or `cleared`), at, bytes, files, made_with{torch, triton, driver, gpu, code},
differs[part]: in which it is not what would be compiled with now.
RATE: trials, crashes, rate (null without a trial), low, high, text, by_fingerprint[{fingerprint,
signature, title, count, runs}]. Of follow: run{run: RunView}, log{attempt, offset, end, text}, gap{attempt, offset, size, reason},
incident{incident: IncidentView}, link{state, seen_at, reason}, end{run: RunView}. `text` is the
bytes from offset to end as UTF-8, with U+FFFD for what is none. Of run: stored{run: RunView}; the
run's own supervisor launches it from there on.

An error is `{"error": {message, remedy, exit_code, checks?, problems?}}` with status 4xx or 5xx;
in a stream it is the last message, `kind: error` with the same keys.
"""  # noqa: E501  a table of routes, one a line

from dataclasses import asdict, dataclass
from typing import Any, NotRequired, TypedDict


class RunView(TypedDict):
    """A run as `show RUN --json` prints it."""

    id: str
    job: str
    target: str
    state: str
    attempt: int
    exit_code: int | None
    signal: int | None
    started_at: float | None
    ended_at: float | None
    step: int | None
    loss: float | None
    phase: str | None
    verdict: dict[str, Any] | None
    restart: dict[str, Any] | None
    """By the job's policy, in back-off and after a failure: `said`, and unix time `at` or None."""
    incident: str | None
    link: str
    seen_at: float | None
    number: int
    session: str
    directory: str
    release: str | None
    why: str
    created_at: float
    metrics: dict[str, Any]
    output_at: float | None
    log_bytes: int
    log_at: NotRequired[str]
    """Machine and state folder of the daemon that has the output, where it is not here."""
    detached: bool
    forced: bool
    group: str | None
    """What the runs of one launch over several targets share; None for a run of one target."""
    node: int
    """Which of them it is; 0 is the one that the job's name means."""
    attempts: NotRequired[list[dict[str, Any]]]
    """GET /v1/runs/RUN alone: `number state started_at ended_at exit_code signal`, oldest first."""
    place: NotRequired[dict[str, Any] | None]
    """GET /v1/runs/RUN alone: its target and host where it is, in the inventory's words."""
    incident_state: NotRequired[str | None]
    """GET /v1/runs/RUN alone: `open`, `acknowledged` or `resolved`, of `incident`."""


class TargetView(TypedDict):
    """A target, its link, and its GPUs as last seen."""

    name: str
    host: str
    transport: str
    runtime: str
    container: str | None
    link: str
    seen_at: float | None
    watched: str
    """`probe` or `shell`."""
    error: str | None
    gpus: list[dict[str, Any]]
    """GpuSample as mappings."""
    gpu_source: str | None
    gpus_at: float | None
    driver: NotRequired[str]
    """The other daemon that drives its host, where one does: machine and pid."""


class IncidentView(TypedDict):
    """An incident; `finding` holds traceback, thread, evidence, next_steps and the rest."""

    id: str
    run: str
    job: str
    target: str
    attempt: int
    signature: str
    severity: str
    title: str
    state: str
    fingerprint: str
    family: str | None
    opened_at: float
    updated_at: float
    resolved_at: float | None
    occurrences: int
    same_as: str | None
    finding: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineEvent:
    """One thing that happened to a run."""

    at: float
    kind: str
    """`deploy`, `launch`, `phase`, `finding`, `incident`, `action`, `command` (a person's, with who
    asked) or `end`."""
    text: str
    """One line; it may hold remote text, so whoever shows it neutralises escapes."""
    ref: str | None
    """What it is about: a release's digest, an attempt's number, an incident's id, a step."""

    def to_json(self) -> dict[str, Any]:
        """As it travels."""
        return asdict(self)


class SilenceView(TypedDict):
    """Alerts that nobody wants to hear: those whose labels have all values of `match`."""

    id: str | None
    """None: from the inventory, and only an edit of it ends the silence."""
    match: dict[str, str]
    until: float | None
    """None: for good."""
    why: str
    created_at: float | None
    expired: bool


class SinkView(TypedDict):
    """A sink as `daemon status` shows it."""

    name: str
    type: str
    state: str
    """`ready`, `unset`, `disabled` or `removed` (not in the inventory, and alerts wait for it)."""
    error: str | None
    pending: int


class LeaseView(TypedDict):
    """Who drives a host, where several daemons share a fleet."""

    host: str
    here: bool
    """Whether it is the daemon that was asked."""
    machine: str
    pid: int
    inventory: str
    token: int
    left_s: float
    """Until another daemon may take it over, unless it is renewed."""


class DaemonView(TypedDict):
    """The daemon itself."""

    running: bool
    pid: int | None
    socket: str
    version: NotRequired[str]
    inventory: NotRequired[str]
    inventory_error: NotRequired[str | None]
    state_folder: NotRequired[str]
    started_at: NotRequired[float]
    outdated: NotRequired[bool]
    """The package on the disk has changed since the daemon began."""
    needs: NotRequired[list[str]]
    """Names of variables that the inventory wants and the daemon has no value for."""
    needed_by: NotRequired[dict[str, list[str]]]
    """Of each of `needs` the jobs, sinks and heartbeat that name it."""
    env_file: NotRequired[str]
    """The file that values may stand in, as a person writes its name."""
    wants: NotRequired[list[str]]
    """All names of variables that the inventory wants."""
    environment_faults: NotRequired[list[str]]
    """What the file of values has that is not taken, each with its place and its remedy."""
    sinks: NotRequired[list[SinkView]]
    jobs: NotRequired[list[dict[str, Any]]]
    """Each: name, targets, session, package, workdir, release."""
    store: NotRequired[str]
    """Which database it is, without a password."""
    leases: NotRequired[list[LeaseView]]
    """All of the fleet; none where the store is not shared."""
    rebuilding: NotRequired[str | None]
    """How far lost runs are asked for; null where none are."""


class Snapshot(TypedDict):
    """The whole state at a moment, or what changed since a cursor."""

    cursor: int
    at: float
    daemon: DaemonView
    targets: list[TargetView]
    runs: list[RunView]
    incidents: list[IncidentView]
