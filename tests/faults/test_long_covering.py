"""Output that is nothing but a secret is covered, and all other runs are watched meanwhile."""

import asyncio
import json

from orchestrator.core.parse.masking import Mask
from orchestrator.reading import covered_beside

SECRET = "s3cretValueOfATest42"
LINE = json.dumps({"a": [SECRET] * 4000}).encode() + b"\n"


async def test_the_loop_goes_on_while_a_long_line_of_secrets_is_covered() -> None:
    """The chunk comes back as a pass over all of it has it, and the loop had turns before."""
    covering = asyncio.ensure_future(covered_beside(Mask([SECRET], of_json=True), 0, LINE))
    turns = 0
    while not covering.done():
        await asyncio.sleep(0.001)
        turns += 1
    shown = await covering
    assert shown == Mask([SECRET], of_json=True).cover(0, LINE)
    assert SECRET.encode() not in shown
    assert turns > 2


async def test_short_chunks_are_covered_in_their_order() -> None:
    """A value that is cut between two of them is covered as ever."""
    mask = Mask([SECRET])
    first = await covered_beside(mask, 0, SECRET[:9].encode())
    rest = await covered_beside(mask, 9, SECRET[9:].encode() + b"\n")
    assert first + rest == b"*" * len(SECRET) + b"\n"
