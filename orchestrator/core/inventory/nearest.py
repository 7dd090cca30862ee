"""A word that is not known -> how a sentence on it ends: the word that was meant, or what there is.

Loads no shape: the daemon uses it too.
"""

import difflib
from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str:
    """`; did you mean X?` where something is near, else what there is to choose from."""
    choices = sorted(known)
    meant = near(word, choices)
    if meant:
        return meant
    if not choices:
        return "; none is declared"
    return f"; choose from {', '.join(choices)}" if len(choices) > 1 else f"; use {choices[0]}"


def near(word: str, known: Iterable[str]) -> str:
    """`; did you mean X?` where something is near, else nothing: of what is too much to list."""
    close = difflib.get_close_matches(word, sorted(known), n=1, cutoff=0.6)
    return f"; did you mean {close[0]}?" if close else ""
