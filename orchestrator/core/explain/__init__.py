"""What a colleague would say of an incident: what died, where, why, what was tried, what changed.

    story.py     what is known: the incident, its run, the job's other runs, what changed
    telling.py   the story -> its facts and sentences, as one document
    prose.py     the document as text for a terminal, and as Markdown for an issue

Pure: the daemon gathers the story, and prints nothing of its own.
"""

from orchestrator.core.explain.prose import attempt_end, change_lines, markdown, text
from orchestrator.core.explain.story import Change, Occurrence, Story, ordered
from orchestrator.core.explain.telling import attempts_told, explain

__all__ = [
    "Change",
    "Occurrence",
    "Story",
    "attempt_end",
    "attempts_told",
    "change_lines",
    "explain",
    "markdown",
    "ordered",
    "text",
]
