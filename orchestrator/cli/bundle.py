"""bundle: everything about a run in one archive, to hand to somebody who can help."""

import argparse
import os
from pathlib import Path

from orchestrator.api.client import quoted
from orchestrator.cli import output
from orchestrator.cli.reach import connect
from orchestrator.core.errors import UsageError

WITHIN_S = 300.0


def bundle(options: argparse.Namespace) -> int:
    """Write the archive of a run; secrets are removed from it."""
    path = f"/v1/runs/{quoted(options.run)}/bundle"
    facts, content = connect(options).archive(path, timeout_s=WITHIN_S)
    # The name is the daemon's to give, the folder is not.
    file = Path(options.output or os.path.basename(str(facts["name"])))  # noqa: PTH119  text
    try:
        with file.open("wb") as archive:
            file.chmod(0o600)
            archive.write(content)
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}.", remedy="Give another -o FILE.") from error
    if options.json:
        output.print_json({**facts, "path": str(file), "bytes": len(content)})
        return 0
    output.say(f"{file}: {len(facts['files'])} files, {output.size(len(content))}")
    output.say(*(f"  {name}" for name in facts["files"]))
    output.say(
        f"{facts['secrets_removed']} secrets were removed; look through it before you send it on"
    )
    return 0
