"""Words of an inventory reach a shell through the one module that quotes, or as arguments."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = [path for folder in ("orchestrator", "tui") for path in (ROOT / folder).rglob("*.py")]
TAKES_A_LINE = re.compile(r"\bshell=True|\bos\.(?:system|popen)\(|subprocess_shell\(|getoutput\(")
SHELLS = frozenset({"sh", "/bin/sh", b"sh", "bash"})
QUOTED = frozenset({"shell_line", "shell_script", "marked_line"})
"""What core/command.py makes."""
A_PERSONS_OWN = {
    "orchestrator/daemon/environment.py": "command",
    "orchestrator/probe/setup.py": "line",
    "orchestrator/probe/trunk_command.py": "line",
    "orchestrator/transport/ssh/connecting.py": "command",
    "orchestrator/transport/python.py": "script",
    "orchestrator/link/shell_ops.py": "script",
    "orchestrator/daemon/adopted.py": "f'{_REMOVED}; exit {NO_RESTART_EXIT_CODE}'",
}
"""Lines that a person wrote as such, lines that were quoted before, and scripts of our own."""


def scripts(source: str) -> Iterator[ast.expr]:
    """What stands behind `sh -c` in a list of words."""
    for node in ast.walk(ast.parse(source)):
        words = node.elts if isinstance(node, ast.Tuple | ast.List) else []
        for shell, option, script in zip(words, words[1:], words[2:], strict=False):
            if not isinstance(shell, ast.Constant) or shell.value not in SHELLS:
                continue
            if isinstance(option, ast.Constant) and option.value in ("-c", b"-c"):
                yield script


def is_ours(script: ast.expr) -> bool:
    """Whether a script is written here, or was made by the module that quotes."""
    called = {
        ast.unparse(one.func).rpartition(".")[2]
        for one in ast.walk(script)
        if isinstance(one, ast.Call)
    }
    written = isinstance(script, ast.Constant) or ast.unparse(script).isupper()
    return written or bool(called & QUOTED)


def test_no_line_for_a_shell_is_made_of_words_elsewhere() -> None:
    """Behind each `sh -c` stands a script of our own, or what core/command.py has quoted."""
    texts = {str(path.relative_to(ROOT)): path.read_text() for path in SOURCES}
    some = {path: text for path, text in texts.items() if '"-c"' in text}
    found = [(path, script) for path, text in some.items() for script in scripts(text)]
    odd = {(path, ast.unparse(one)) for path, one in found if not is_ours(one)}
    assert odd == set(A_PERSONS_OWN.items())
    assert len(found) > 10


def test_nothing_is_started_by_a_shell_unseen() -> None:
    """Neither `shell=True` nor a call that takes a whole line."""
    assert [str(path) for path in SOURCES if TAKES_A_LINE.search(path.read_text())] == []
