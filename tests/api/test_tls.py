"""What `--listen` speaks: no version of TLS that is broken."""

import ssl
from pathlib import Path

from orchestrator.api.listening import _tls
from tests.lab.certificate import self_signed


def test_no_old_version_is_spoken(tmp_path: Path) -> None:
    """By our own word, and not by that of how this machine's OpenSSL was built."""
    both = str(self_signed(tmp_path))
    assert _tls(both, both).minimum_version is ssl.TLSVersion.TLSv1_2
