"""The composition root: builds every stage, hands each what it needs, and answers the API.

main.py         lock, logging, start and end; listen.py what `--listen` was told
serving.py      a daemon's life between the two: parts, API, signals
inventory_file.py  the newest good inventory, read by inventory_reading.py in a process that ends
parts.py        what there is, built in order
environment.py  values of secrets and sink addresses, in memory only; env_file.py reads the file
                of them, covering.py keeps them out of what is told, logs.py the daemon's own log
board.py        the newest view of everything, with a cursor for `what changed since`
views.py        stored values -> the API's documents; exposition.py the board for Prometheus
fleet.py        one link for each target, its GPUs, its state; machines.py the hosts below them,
                gpu_merge.py what both see of a card, gpu_history.py its newest rounds
crew.py         one supervisor for each run that lives; display.py what is shown of them,
                stopping.py who waits for the end of one, gate.py whose relaunch is next,
                policies.py what it decides by, placed.py where a run stays when its target is
                edited, arriving.py whether it is where an edited address leads,
                recruiting.py makes each supervisor,
                adopted.py and simulated.py of runs whose job the inventory has not
leasing.py      which hosts are driven here, where several daemons share a database; neighbours.py
                shows what the others drive, elsewhere.py knows whose a question is, passing.py
                asks and answers it through the database, moving.py brings a host over,
                fetching.py gets the output of runs that another one saw end
rebuilding.py   runs come back from their targets after a lost database; coming_back.py whoever
                asks meanwhile waits; numbering.py no number is used again
duties.py       what is done by the clock; lasting.py that it goes on after a failure,
                forgetting.py what is older than is kept, footing.py and installed.py whether the
                files that the daemon stands on, or was started from, are still those
shipping.py     deploy, as a person asks for it, step by step; releasing.py what is there, and the
                way back; deploy_looks.py what a job finds after a deploy, drift.py what of it
                changed since the last good run
launching.py    run and stop, likewise; adopting, simulating and trials begin runs too, nodes.py
                one run over several targets
queries.py      what a person reads; following.py a log as it grows, waiting.py the moment when
                something holds, searching.py and moments.py a place in a log, timeline.py what
                happened to a run, bundling.py all of it in one archive
telling.py      the daemon, its sinks and releases; explaining and comparing tell of incidents,
                silences.py and heeding.py what a person did about one
pruning.py      what is old removed, here and there; caching.py compiled kernels kept, ending.py one
                process that holds a GPU ended, unit.py the daemon as a systemd unit
doctor.py       everything checked, each with its remedy: doctor_targets.py, doctor_packages.py,
                machine_checks.py
asked.py        what the body of each request may hold
backend.py      the API's questions to the files above
"""
