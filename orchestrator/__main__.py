"""`python -m orchestrator`: the same as `orch`; the daemon is started this way."""

import sys

from orchestrator.cli.main import main

sys.exit(main())
