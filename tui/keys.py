"""The one registry of keys: what each does, where, and whether it changes anything.

Bindings, footer, help and command palette are all made from it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from textual.binding import Binding, BindingType

PAGES = ("fleet", "run", "incident", "top", "told", "plots", "silences")


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One thing a person can do; `action` is Textual's."""

    id: str
    keys: str
    action: str
    label: str
    help: str
    pages: tuple[str, ...]
    """Where it works; `app` is everywhere."""
    changes: bool = False
    """Refused with --read-only."""
    shown: tuple[str, ...] = ()
    """Pages on which it is in the footer."""
    asks: bool = False
    """Asks before it does anything."""
    types: bool = False
    """Opens a line to type into; taken first of all, so that what is typed ahead goes there."""

    @property
    def names(self) -> str:
        """Its keys as a person writes them."""
        return " ".join(_NAMES.get(key, key) for key in self.keys.split(","))


_NAMES = {
    "escape": "Esc",
    "enter": "Enter",
    "question_mark": "?",
    "slash": "/",
    "colon": ":",
    "at": "@",
    "ctrl+p": "Ctrl+P",
    "space": "Space",
}


_TABLE = """
open            enter          open                 open            fleet* run top*
    Open what the cursor is on: a run, its incident, a target's GPUs.
back            escape         back                 back  run* incident* top* told* plots* silences*
    Go back; a filter, a search and marks go first.
all             escape         back                 all             fleet
    Leave the filter, then the order and the groups.
filter          slash          filter               filter          fleet*  /
    Show only runs with these words in them.
order           o              order                order           fleet
    Sort: newest, trouble, longest silent, lowest loss, name.
group           g              group                group           fleet
    Put runs under a heading for each target, job or state.
search          slash          search               search          run*  /
    Search the whole log; a regular expression, small letters match large ones.
next_match      n              search_on(1)         next            run
    Go to the next match, further down.
previous_match  N              search_on(-1)        previous        run
    Go to the match before, further up.
jump            at             jump                 jump to time    run  /
    Go to a time in the log: 14:30, or 10m for ten minutes ago.
finding         f              finding              finding         run incident*
    Go to the place in the log that the incident speaks of.
pause           space          pause                pause           run*
    Stop following the log, or follow it again.
wrap            w              wrap                 wrap            run
    Wrap long lines, or cut them and look sideways with Left and Right.
rank            R              rank                 rank            run
    Show one rank after the other, then all again.
level           l              level                level           run
    Show all lines, then warnings and errors, then errors.
metrics         m              metrics              metrics         run
    Show or hide the plots: loss, speed, gradient norm.
plots           M              page('plots')        plots           run
    Plots on a screen of their own: any metric, the GPUs, beside another run.
toggle          enter,space    open                 show or hide    plots*
    Show the metric under the cursor, or leave it out.
log_axis        L              log_axis             log axis        plots*
    Tell the metric under the cursor on a logarithmic axis, or not.
compare         c              compare              compare         plots*
    Draw another run of the job beside this one; asks which.
history         h              page('history')      history         run incident
    What happened to the run: deploys, attempts, phases, findings, who asked for what.
environment     v              page('environment')  environment     run
    What the run found around it: packages, drivers, caches, its configuration.
changes         D              page('changes')      what changed    run incident
    What is different since the last good run of the job.
copy            y              copy                 copy            run incident told*
    Copy the lines on the screen to the clipboard, through the terminal.
save            W              save                 save            run
    Save the whole log as a file in the folder the dashboard was started in.
bundle          b              act('bundle')        bundle          run incident
    Save all about the run as one archive, secrets removed, in the same folder.
incident        i              incident             incident        fleet run*
    Open the run's incident: what died, where, why, what to do.
deploy          d              act('deploy')        deploy          fleet* run incident  !?
    Ship the job's package; shows the plan and asks.
run             r              act('run')           run             fleet* run incident*  !?
    Launch the job; asks why.
stop            s              act('stop')          stop            fleet* run* incident  !?
    Stop the run; asks.
rollback        B              act('rollback')      roll back       fleet run  !?
    Make an earlier release the current one; asks which.
ack             A              act('ack')           ack             fleet run incident*  !
    Say that somebody cares about the incident.
silence         Z              act('silence')       silence         fleet run incident  !?
    Keep alerts like this one back for a while; asks which and how long.
silences        z              silences             silences        fleet run incident top
    The alerts that are kept back, for how long yet and why; K there ends a silence.
expire          K              act('expire')        end silence     silences*  !?
    End the silence under the cursor: alerts like that are heard again; asks.
attach          a              act('attach')        attach          fleet* run* incident  !
    Land in the run's tmux session; detaching (Ctrl+B d) comes back here.
shell           x              act('shell')         shell           fleet run incident top*  !
    A shell on the target; leaving it comes back here.
end             K              act('end')           end program     top*  !?
    End the program under the cursor, which holds GPU memory; asks.
edit            e              act('edit')          edit inventory  app  !
    Open the inventory in $VISUAL or $EDITOR.
start_daemon    S              act('start_daemon')  start daemon    app  !
    Start the daemon, where none answers.
top             t              top                  GPUs            fleet run incident
    The GPUs of the fleet, and what holds them.
theme           T              theme                theme           app
    Dark, light, or no colours.
palette         ctrl+p,colon   command_palette      commands        app
    Find anything that can be done, by its name.
help            question_mark  help                 help            app*
    Show this list.
quit            q              quit                 quit            app*
    Leave the dashboard; runs and the daemon go on.
"""
"""Two lines a key: id, keys, action, label, pages (a star: in the footer there), then `!` where it
changes something, `?` where it asks first, `/` where it opens a line to type into; its help."""


def _read(table: str) -> Iterator[Key]:
    lines = table.strip().splitlines()
    for facts, told in zip(lines[::2], lines[1::2], strict=True):
        name, pressed, action, label, pages, *rest = re.split(r"  +", facts)
        flags = "".join(rest)
        where = pages.split(" ")
        yield Key(
            id=name,
            keys=pressed,
            action=action,
            label=label,
            help=told.strip(),
            pages=tuple(page.rstrip("*") for page in where),
            shown=tuple(page.rstrip("*") for page in where if page.endswith("*")),
            changes="!" in flags,
            asks="?" in flags,
            types="/" in flags,
        )


KEYS = tuple(_read(_TABLE))


def at(page: str) -> Iterator[Key]:
    """The keys of a page."""
    return (key for key in KEYS if page in key.pages)


def by_id(name: str) -> Key:
    """The key of that id; KeyError where there is none."""
    return next(key for key in KEYS if key.id == name)


def of_action(page: str, action: str, parameters: tuple[object, ...]) -> Key | None:
    """The key of a page that does that action."""
    words = ", ".join(map(repr, parameters))
    names = {action, f"{action}({words})"}
    return next((key for key in at(page) if key.action in names), None)


def bindings(page: str) -> list[BindingType]:
    """A page's keys as Textual takes them."""
    return [
        Binding(
            key.keys,
            key.action,
            key.label,
            show=page in key.shown,
            priority=key.types,
            key_display=key.names,
            tooltip=key.help,
            id=f"{page}.{key.id}",
        )
        for key in at(page)
    ]
