"""Questions to a person on the terminal, each asked again until its answer is one.

Owns the prompt. Who asks decides whether anybody is there.
"""

from collections.abc import Sequence

from orchestrator.cli import output


def answer(prompt: str) -> str:
    """What was typed, stripped; Ctrl-D leaves as Ctrl-C does."""
    try:
        return input(prompt).strip()
    except EOFError:
        output.say("")
        raise KeyboardInterrupt from None


def choose(question: str, choices: Sequence[str], otherwise: str, *, others: bool = False) -> str:
    """One of the choices by its number, its name, or by Enter; any other word where `others`."""
    output.say(question, *(f"  {number}  {one}" for number, one in enumerate(choices, start=1)))
    while True:
        said = answer(f"[{otherwise}] ") or otherwise
        if said in choices:
            return said
        if said.isdecimal() and 0 < int(said) <= len(choices):
            return choices[int(said) - 1]
        named = [one for one in choices if one.endswith(f":{said}")]  # 200 for pct:200
        if len(named) == 1:
            return named[0]
        if others and not said.isdecimal():
            return said
        output.say(f"{said} is none of these: a number from 1 to {len(choices)}, or a name of them")
