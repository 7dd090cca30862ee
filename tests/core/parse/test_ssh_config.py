"""Which hosts an ssh_config names."""

from orchestrator.core.parse.ssh_config import SshConfig, parse_ssh_config


def test_hosts_and_includes_are_read_and_patterns_are_not() -> None:
    """Several names on a line, quotes, `=`, any case; a pattern is no host."""
    text = (
        "# mine\nInclude work/*.conf\nHOST gpu1 gpu2 *.lan !gpu9\n  HostName 10.0.0.1\n"
        'host="gpu 3"\nHost gpu1\nMatch host x\nHost "torn\n'
    )
    assert parse_ssh_config(text) == SshConfig(
        aliases=("gpu1", "gpu2", "gpu 3"), includes=("work/*.conf",)
    )
