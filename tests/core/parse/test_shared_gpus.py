"""A card that two targets see is told once, unless they see other programs on it."""

from typing import Any

from orchestrator.core.parse.shared_gpus import shared_words, shown_above


def target(name: str, *cards: tuple[str, int | None], link: str = "connected") -> dict[str, Any]:
    """A target of the API with cards of these UUIDs, each with one program or none."""
    gpus = [
        {"index": index, "uuid": uuid, "processes": [{"pid": pid, "run": "r"}] if pid else []}
        for index, (uuid, pid) in enumerate(cards)
    ]
    return {"name": name, "link": link, "gpus": gpus}


def test_a_shared_card_is_shown_at_the_first_target() -> None:
    """The later one says where, and by which number where that is another."""
    above = shown_above([target("a", ("x", 7), ("y", None)), target("b", ("y", None), ("x", 7))])
    assert above == {("b", 0): ("a", 1), ("b", 1): ("a", 0)}
    assert shared_words(above, "a") == []
    assert shared_words(above, "b") == ["GPUs 0, 1 are shared with a, and shown there as 1, 0"]
    one = shown_above([target("a", ("x", 7)), target("b", ("x", 7), ("z", None))])
    assert shared_words(one, "b") == ["GPU 0 is shared with a, and shown there"]


def test_what_is_not_the_same_is_shown_at_both() -> None:
    """Other programs, no UUID, a target that is not seen now."""
    assert shown_above([target("a", ("x", 7)), target("b", ("x", 8))]) == {}
    assert shown_above([target("a", ("", 7)), target("b", ("", 7))]) == {}
    assert shown_above([target("a", ("x", 7), link="unreachable"), target("b", ("x", 7))]) == {}
