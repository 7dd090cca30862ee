"""Writes docs/signatures.md from the signatures: `python -m bench.diagnose.catalogue`."""

from pathlib import Path

from orchestrator.core.detect.signatures import Signature, load

PAGE = Path(__file__).parents[2] / "docs" / "signatures.md"
HEAD = """# Signatures

What orch recognises, most telling first: where two match, the earlier one is meant. This page is
written by `python -m bench.diagnose.catalogue` from `orchestrator/core/detect/signatures/`; a test
fails where it is stale. Rules of your own go into `rules:` of the inventory, in the same shape.

An end that none of them explains (an exit code alone, a shell that found no command, a sentence in
place of a traceback) is a `python_error` as well; its title then says what is known: "The program
ended with exit code 3 and printed no reason".

A family joins signatures that are faces of one fault: a change of face is not a fix.
"""


def page() -> str:
    """The whole page."""
    return HEAD + "".join(_section(item) for item in load())


def _section(item: Signature) -> str:
    transient = {True: "transient", False: "not transient", None: "transient or not: unknown"}
    facts = [item.severity.value, f"role {item.role.value}", transient[item.transient]]
    if item.family:
        facts.append(f"family {item.family}")
    lines = [f"\n## {item.id}\n", f"*{item.title}* ({', '.join(facts)})\n", f"{item.cause}\n"]
    lines.append("\n".join(f"- {step}" for step in item.next_steps) + "\n")
    if item.references:
        lines.append("See " + ", ".join(f"<{link}>" for link in item.references) + "\n")
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page())
