"""Names that a hostile target tells lead nowhere outside the folder that was asked for."""

import pytest

from orchestrator.core.errors import OrchError
from orchestrator.link.copying import require_inside

KEYS = {"name": "d/authorized_keys", "kind": "file", "mode": 0o600, "size": 1}


@pytest.mark.parametrize(
    "name", ["../x", "a/../../x", "/etc/passwd", "..", "a/..", "a\0b", "/", "../../.ssh/config"]
)
def test_names_that_climb_are_refused(name: str) -> None:
    """A name with `..`, an absolute one or one with a NUL stops the copy before it begins."""
    with pytest.raises(OrchError, match="leads out of that folder"):
        require_inside("/srv/run", [{**KEYS, "name": name}])


def test_nothing_is_written_through_a_link() -> None:
    """A link and a file below it, in whatever order, are refused: the link may point anywhere."""
    link = {"name": "d", "kind": "link", "mode": 0, "size": 0, "to": "/root/.ssh"}
    for entries in ([link, KEYS], [KEYS, link]):
        with pytest.raises(OrchError, match="leads out of that folder"):
            require_inside("/srv/run", entries)


def test_ordinary_trees_pass() -> None:
    """Folders, files in them, links beside them, and names with dots are fine."""
    require_inside(
        "/srv/run",
        [
            {"name": ".", "kind": "folder"},
            {"name": "d", "kind": "folder"},
            {"name": "d/..x", "kind": "file"},
            {"name": "d/last", "kind": "link", "to": "step_1"},
            {"name": "d/lastly", "kind": "file"},
        ],
    )
