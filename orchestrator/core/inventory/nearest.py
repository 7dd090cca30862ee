"""A word that is not known -> how a sentence on it ends: the word that was meant, or what there is.

Loads no shape: the daemon uses it too.
"""

import difflib
from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str:
    """`; did you mean X?` where something is near, else what there is to choose from."""
    choices = sorted(known)
    close = difflib.get_close_matches(word, choices, n=1, cutoff=0.6)
    if close:
        return f"; did you mean {close[0]}?"
    if not choices:
        return "; none is declared"
    return f"; choose from {', '.join(choices)}" if len(choices) > 1 else f"; use {choices[0]}"
