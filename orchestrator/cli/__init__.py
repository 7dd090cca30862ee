"""`orch`: reads the words of a command, asks the daemon, prints. It decides nothing.

    parser.py      every command; options*.py have the options of most, command.py what a command is
    main.py        words -> command module -> exit code; the only place that prints an error
    reach.py       the inventory, its daemon (started where it must be), and a client of it
    output.py      tables, durations, JSON; remote text made harmless
    status.py      status, ps, show, wait, top
    logs.py        logs
    ship.py        deploy, rollback
    launch.py      run
    follow.py      what `run` and `logs -f` show while a run lives; live.py on a terminal
    verdict.py     an incident in a few lines
    stop.py        stop
    incidents.py   incidents, explain, ack
    diagnose.py    diagnose
    comparing.py   diff
    prune.py       prune; releases.py releases
    cache.py       cache ls, save, restore, clear
    bundle.py      bundle
    trials.py      repeat, compare, bisect
    silence.py     silence add, ls, expire
    rules.py       rules test
    check.py       doctor, alert test, simulate
    daemon.py      daemon run, start, stop, status
    install.py     daemon install
    enter.py       attach, tui
    there.py       exec
    adopt.py       adopt
    copying.py     cp
    forward.py     forward
    init.py        init
    trust.py       trust
    targets.py     TARGET and HOST -> the inventory's, or ad hoc
    direct.py      a run by its tmux session, with no daemon in between
    completion.py  completion, manual

The reading path loads no asyncio, aiohttp, pydantic, rich or YAML: a test pins it.
"""
