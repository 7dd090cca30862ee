"""The wire between a daemon and its probe: newline-delimited JSON frames, one object a line.

Stdlib only and Python 3.10: this file is shipped inside the probe and used by the link as well.

Every frame has `kind`. Bytes travel as base64 under `data`. Times are unix seconds of the
target's clock. Paths are absolute on the target.

Probe to daemon
    hello    v probe python pid boot_id hostname tmux generation time features   first frame, always
    result   id value raw | id error{type,message,remedy}       answer to a call; with `raw: N` the
             N bytes behind the line are the value's `data`
    progress id value                                       news of a call that takes long
    bytes    watch stream offset data t                     new bytes of a followed file
    gap      watch stream offset size reason next           bytes that cannot be had any more
             reason disk_full: they never were in the file, `next` is `offset`; truncated, rotated:
             the file begins anew, `next` is 0; replaced: something else lies in its place, and is
             not read. One at the very offset of a watch may be told again.
    exit     watch record                                   exit record, sent after the last byte
    gone     watch reason                                   relay ended without an exit record
    told     watch                                          before any byte: the relay has alerted
             itself of this attempt's end, under the id of its `own_alert`
    session  watch detached                                 the tmux session vanished or is back
    gpus     t source samples error                         see GpuSample; source nvml|nvidia-smi
    kernel   t seq line container container_pid run run_dir   kernel log line of interest (host),
             and whose the process is that it names, where that could be seen
    pong     n

Daemon to probe
    call     id op args raw                                 see the ops of serve.py; with `raw: N`
             the N bytes behind the line are the op's `data`
    ack      watch stream offset          stored up to here; opens the window; not for each line
    ping     n                            every 5 s; SILENCE_LIMIT_S without a frame end it

Ops of a call (args -> value)
    launch   LaunchSpec -> {attempt_dir, already, session, pid, started_at}  once per attempt_dir
    watch    {watch, attempt_dir, log_offset, metrics_path, metrics_offset, linked} -> {}
             `linked`: the log is a link that orch itself made; else no link is followed
    unwatch  {watch} -> {}
    end      {run, uid, session, socket, attempt_dir, grace_s, gpus}
             -> {ended:[pid], remaining:[{pid, command}], gpus:[index], gpus_free_after_s,
             gpu_holders}    waits until the run's GPUs are free: those with the UUIDs `gpus` and
             those on which it is seen; all where none is known
    acknowledge {attempt_dir} -> {}      its end is stored: the relay need not alert; also by `end`
    signal   {attempt_dir, signal} -> {}
    end_pid  {pid, start, command, grace_s} -> {ended}    refused where another one has the PID now
    read     {path, offset, size} -> {data, size}       a range of a file; size of the whole
    gpus     {interval_s, host} -> {source, samples, error}      0 stops the stream of them, and
             without `interval_s` it goes on as it was; `host`: the driver's PIDs are those of this
             place, which is no container
    kernel   {since, after} -> {}         lines from that unix time on, behind record `after` of
             this boot, as `kernel` frames; only where hello's `features` have `kernel`
    kernel_lines {since, after} -> {lines:[frame]}   those that are there now, `kernel` frames all
    activity {run, uid, attempt_dir, over_s}
             -> {over_s, cpu_cores, processes:[{pid, container_pid, command, state, wchan, rank}]}
    dump     {run, uid, attempt_dir, folders} -> {py_spy, nvidia_smi, nccl, machine, tools,
             processes:[activity's, and threads:[{tid, name, wchan}], stacks where py-spy told
             them, else its complaint]}; it is looked for in `folders`, PATH and the folder `tools`
    processes {} -> {processes:[{pid, command, run, session, age_s}]}
    preflight {checks:{...}} -> {checks:[Check as mapping], versions, held:[{index, uuid,
             memory_used_bytes, processes}]}     held: GPUs that are not idle
    sessions {socket} -> {sessions:[{name, dead, run, uid, created}]}
    release_look   {workdir} -> {}      looks what of `current` has changed, ahead of an offer
    release_offer  {workdir, digest, manifest, env, path_first} -> {missing:[sha256], current,
             exists, setup} | {unknown}   changes nothing; `manifest`: {whole} (packed), or what is
             different from a release there, {base, header, drop:[path], add:[line]}
    release_blobs  {workdir, digest, deploy, number, packed, data} -> {}    raw; records in pieces
    release_commit {workdir, digest, deploy, manifest, env, path_first, provenance, data}
             -> {path, switched, verified, linked, setup_ran}     progress: {stage, line}
    release_abandon {workdir, digest, deploy} -> {}      what was sent for `deploy` is removed
    release_list   {workdir} -> {current, releases:[{digest, name, at, bytes, files, in_use,
             provenance}]}
    release_switch {workdir, digest} -> {current, before, path, release}
    release_prune  {workdir, keep, protect} -> {removed, kept, environments}
    runs_prune  {workdir, names, dry_run, socket} -> {removed:[{name, bytes}], in_use:[name],
             sessions:[name]}
    runs_known  {workdir, names} -> {runs:[{name, attempts:[{number, attempt, exit}]}]}
             the records as they lie there
    runs_highest {workdir, job} -> {number}      of all runs of the job that have a folder there; 0
    environment {python, packages, variables, caches} -> {...}
    cache_list  {workdir, env} -> {now:[{kind, path, bytes, files}], saved:[record]}
    cache_save  {workdir, env, name, how, made_with} -> {name, how, at, bytes, files, kinds,
             made_with, dropped:[name]}     progress: {bytes}
    cache_clear {workdir, env, name, how, made_with} -> likewise
    cache_restore {workdir, env, name} -> {files, bytes, there}     over nothing that is there
    adopt_look  {what, socket, take_pipe} -> {what, name, pid, command, folder}
             what: a session, SESSION:WINDOW.PANE, or a PID
    adopt    {run, uid, attempt, attempt_dir, session, socket, what, take_pipe} -> as launch
    copy_hold   {path} -> {held}     the turn of a place, until it is let go or the probe ends
    copy_let_go {path} -> {}
    copy_look   {path} -> {kind, mode, size, stamp, path, link, part, part_bytes}
             kind and part: file, folder, other, nothing; part: what has the mark of one, link too
    copy_tree   {path, after} -> {entries:[{name, kind, mode, size, stamp, to}], more}
    copy_digest {path, size, part} -> {sha256, missing}
    copy_read   {path, offset, size} -> {data}       raw
    copy_write  {path, offset, data, cut} -> {}      raw; into the part beside the name
    copy_commit {path, size, sha256, mode} -> {}     verified and renamed, or removed
    copy_make   {path, kind, mode, to, inside} -> {}     a folder or a link; `inside`: a link in
             the folder's place is removed
    copy_name   {path} -> {}         a folder that was built beside its name gets it
    copy_remove {path} -> {}         what an earlier copy left there

A `launch` spec (LaunchSpec):
    run uid attempt run_dir attempt_dir session socket argv env cwd path_first python_path
    asked {target, args, env, why, forced, whole}, kept in attempt.json, has no secret
    own_alert {id, within_s, labels, secrets:[name], forms:[{places:[[text]], between}],
             sinks:[{name, url, keys, format}]} or nothing
    argv is a list; env is the job's own (secrets included, they travel in no other way);
    path_first are folders put before the standard PATH, python_path before PYTHONPATH.
"""

import base64
import json
from typing import Any

VERSION = 1
MAX_FRAME_BYTES = 8 * 1024 * 1024
CHUNK_BYTES = 256 * 1024
WINDOW_BYTES = 4 * 1024 * 1024
PING_INTERVAL_S = 5.0
SILENCE_LIMIT_S = 330.0
"""More than what holds a probe on its host waits (trunk.py): a cut shorter than that is nothing."""
BULK = ".bulk"
"""In the key of a probe that is for one transfer."""
BULK_SILENCE_LIMIT_S = 30.0
"""Nothing holds it over a cut, and what it has begun keeps the next deploy waiting."""
TOKEN_SHIFT = 42
"""A generation is the token of the daemon's lease, and below it its clock in milliseconds."""

Frame = dict[str, Any]


class BadFrame(ValueError):
    """A line that is no frame."""


def encode(frame: Frame) -> bytes:
    """One frame as one line; `data` of a value that is bytes goes behind the line as it is."""
    value, behind = frame.get("value"), b""
    if isinstance(value, dict) and isinstance(value.get("data"), bytes):
        behind = value["data"]
        value = {key: item for key, item in value.items() if key != "data"}
        frame = {**frame, "raw": len(behind), "value": value}
    line = json.dumps(frame, separators=(",", ":"), ensure_ascii=True).encode()
    return b"\n".join((line, behind))


def decode(line: bytes) -> Frame:
    """The frame of a line; BadFrame where it is none."""
    if len(line) > MAX_FRAME_BYTES:
        raise BadFrame(f"a frame of {len(line)} bytes; at most {MAX_FRAME_BYTES}")
    try:
        frame = json.loads(line)
    except (ValueError, RecursionError) as exc:
        raise BadFrame(f"not JSON: {line[:80]!r}") from exc
    if not isinstance(frame, dict) or not isinstance(frame.get("kind"), str):
        raise BadFrame(f"no frame: {line[:80]!r}")
    return frame


def raw_size(frame: Frame) -> int | None:
    """How many bytes follow a frame's line; None: it is whole. BadFrame where that is no size."""
    size = frame.get("raw")
    if size is None:
        return None
    if not isinstance(size, int) or not 0 <= size <= MAX_FRAME_BYTES:
        raise BadFrame(f"{size!r} bytes cannot follow a frame")
    return size


def pack(chunk: bytes) -> str:
    """Bytes as text for `data`."""
    return base64.b64encode(chunk).decode("ascii")


def unpack(text: str) -> bytes:
    """Bytes of a `data` field; BadFrame where they are not base64."""
    try:
        return base64.b64decode(text, validate=True)
    except (ValueError, TypeError) as exc:
        raise BadFrame("`data` is not base64") from exc
