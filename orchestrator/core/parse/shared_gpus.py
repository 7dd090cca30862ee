"""Cards that several targets see: the containers of one host are often given the same ones.

Owns which rows would say nothing new. Changes no sample.
"""

from collections.abc import Iterable, Mapping
from typing import Any


def shown_above(targets: Iterable[Mapping[str, Any]]) -> dict[tuple[str, int], tuple[str, int]]:
    """Target and index of each card that is shown already -> target and index where it is.

    `targets` are the API's, in the order in which they are shown. A card is the same by its UUID;
    one on which a target sees other programs is shown there too.
    """
    first: dict[str, tuple[str, int]] = {}
    programs: dict[str, set[tuple[Any, Any]]] = {}
    found: dict[tuple[str, int], tuple[str, int]] = {}
    for target in targets:
        for gpu in target["gpus"]:
            uuid, here = gpu.get("uuid"), (target["name"], int(gpu["index"]))
            if not uuid or target["link"] != "connected":
                continue
            on_it = {(one.get("pid"), one.get("run")) for one in gpu.get("processes") or ()}
            if first.setdefault(uuid, here) == here:
                programs[uuid] = on_it
            elif programs[uuid] == on_it:
                found[here] = first[uuid]
    return found


def shared_words(above: Mapping[tuple[str, int], tuple[str, int]], target: str) -> list[str]:
    """`GPUs 0, 1 are shared with ct200, shown there as 0, 1`, for each target that shows some."""
    pairs: dict[str, list[tuple[int, int]]] = {}
    for (name, index), (there, its) in above.items():
        if name == target:
            pairs.setdefault(there, []).append((index, its))
    words = []
    for there, both in pairs.items():
        mine, theirs = (", ".join(str(pair[side]) for pair in both) for side in (0, 1))
        noun = "GPU" if len(both) == 1 else "GPUs"
        verb = "is" if len(both) == 1 else "are"
        other = "" if mine == theirs else f" as {theirs}"
        words.append(f"{noun} {mine} {verb} shared with {there}, and shown there{other}")
    return words
