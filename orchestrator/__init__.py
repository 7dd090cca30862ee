"""orch: deploy a training package, launch it, watch it, name its crashes, tell a person.

The path of the data, and the file that owns each arrow:

    inventory.yaml
        |   core/inventory/           YAML -> hosts, targets, jobs; every fault at once
        v
    transport/                        commands and bytes reach a target (ssh, local, container)
        |   link/                     one probe a target: pushed, started, watched, started anew
        v
    deploy/                           a folder -> an immutable release on the target
        |
        v
    launch/                           preflight, then a tmux session with a relay in it
        |   probe/attempt.py          the relay: the program's terminal, log and exit record
        v
    observe/                          log bytes by offset, exit records, GPU samples
        |   reading.py, witness.py    a run's bytes stored and read; the kernel, GPUs and time asked
        |   core/parse/               text -> values
        v
    core/detect/                      lines -> findings -> one verdict
        |   core/watch/               what is wrong though the log does not say so
        v
    core/decide/                      state + event -> new state + actions, as data
        |   store/                    stored before it is done (acting.py)
        v
    sinks/                            alerts out; relaunches go back to launch/
        |   core/explain/             what a colleague would say of it
        |   api/                      the daemon's socket
        v
    cli/  and the package tui         what a person sees

daemon/ puts the parts together. `supervise.py` walks this path for one run. The layer list in
pyproject.toml says who may import whom.
"""
