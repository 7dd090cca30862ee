"""Good inventories become frozen nouns; bad ones name every fault with line, key and remedy."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.decide import restart
from orchestrator.core.detect.signatures import load
from orchestrator.core.errors import InventoryError
from orchestrator.core.inventory.build import parse_inventory
from orchestrator.core.inventory.failures import BY_THEMSELVES, GROUPS, LOST, SIGNATURES
from orchestrator.core.inventory.units import parse_duration, parse_hours, parse_size
from orchestrator.core.model import Inventory
from orchestrator.core.watch.advice import WATCHED

CASES = sorted((Path(__file__).parent / "inventories").glob("*.yaml"))
ROOT = Path(__file__).parents[2]

WHOLE = b"""\
version: 1
hosts:
  pve1: {hostname: 10.1.2.6, port: 22, user: root, identity_file: ~/.ssh/id, proxy_jump: bastion}
  here: {transport: local}
  gpu3:
targets:
  ct200: {host: pve1, runtime: pct, container: 0200, labels: {rack: 7}}
  local: {host: here, python: .venv/bin/python}
jobs:
  dflash:
    target: ct200
    package: trainer
    workdir: /srv/orch/dflash
    setup: {requirements: requirements.txt, system_site_packages: true}
    command: python3 -m trainer --config configs/8gpu-5+3.toml
    env: {RATE: 1e-3, CACHE: /srv/cache}
    secrets: [HF_TOKEN]
    preflight: {gpus_idle: true, min_free_disk: 50GiB, packages: {torch: ">=2.10"}}
    watch:
      start_within: 15m
      metrics: {loss: 'loss[=: ]+(?P<value>\\S+)'}
      expect: ['step>=1000: loss<6']
      stop_on: [thread_death]
    restart: {on: [infra], max_attempts: 3, within: 6h, backoff: 30s}
  spread:
    targets: [ct200, local]
    workdir: /srv/spread
    command: [python3, -m, trainer]
    session: wide
alerts:
  sinks:
    ops: {type: webhook, url_env: ORCH_WEBHOOK_URL, secret_env: ORCH_WEBHOOK_SECRET}
    bell: {type: command, command: [notify-send, orch]}
  routes: [{match: {severity: critical}, to: [ops, bell]}]
  remind: 4h
  cool_down: 10m
  quiet_hours: 22:00-07:00
rules: [{name: mine, pattern: oops}]
"""


def parse(text: bytes, path: str = "inventory.yaml") -> Inventory:
    """Parse as if the inventory lay in /here, where only the folder trainer is."""
    return parse_inventory(
        text,
        path=path,
        folder="/here",
        exists=lambda folder: folder == "/here/trainer",
        home="/home/me",
    )


def faults(text: bytes) -> list[str]:
    """The problems of a text, as a person reads them."""
    with pytest.raises(InventoryError) as caught:
        parse(text)
    return [str(problem) for problem in caught.value.problems]


def outcome(text: bytes) -> object:
    """The inventory, or the problems it was refused for."""
    try:
        return parse(text)
    except InventoryError as error:
        return error.problems


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_bad_inventory_is_refused_with_exactly_its_messages(case: Path) -> None:
    """Every fault of the file is reported, in order of line; `#!` lines hold what is expected."""
    lines = case.read_bytes().splitlines(keepends=True)
    text = b"".join(line for line in lines if not line.startswith(b"#! "))
    expected = [line[3:].decode().rstrip() for line in lines if line.startswith(b"#! ")]
    assert faults(text) == [f"inventory.yaml:{line}" for line in expected]


def test_there_are_at_least_twenty_bad_inventories() -> None:
    """The collection cannot shrink unseen, as a glob that matches nothing would."""
    assert len(CASES) >= 20


def test_whole_inventory_becomes_nouns() -> None:
    """Paths are resolved, units read, defaults filled in, and text kept as it was written."""
    inventory = parse(WHOLE)
    job = inventory.jobs["dflash"]
    assert job.package == "/here/trainer"
    assert job.session == "dflash"
    assert job.env == {"RATE": "1e-3", "CACHE": "/srv/cache"}
    assert job.watch.start_within_s == 900
    assert job.watch.metrics == {"loss": r"loss[=: ]+(?P<value>\S+)"}
    assert job.preflight.min_free_disk_bytes == 50 * 1024**3
    assert job.restart.within_s == 21_600
    assert job.setup is not None
    assert job.setup.python == "python3"
    assert inventory.targets["ct200"].container == "0200"
    assert inventory.targets["ct200"].labels == {"rack": "7"}
    assert inventory.targets["local"].python == "/here/.venv/bin/python"
    assert inventory.hosts["pve1"].identity_file == "/home/me/.ssh/id"
    assert inventory.hosts["gpu3"].transport == "ssh"


def test_a_path_in_a_package_may_begin_with_a_dot() -> None:
    """`./ckpt` is `ckpt`, as a shell completes it."""
    job = b"    setup: {requirements: ./some.txt}\n    shared: [./ckpt, .//./out/, .cache/x]\n"
    inventory = parse(
        b"version: 1\nhosts: {g: {}}\ntargets: {t: {host: g}}\njobs:\n  one:\n    target: t\n"
        b"    workdir: /srv/x\n    command: x\n" + job
    )
    one = inventory.jobs["one"]
    assert one.setup is not None
    assert one.setup.requirements == "some.txt"
    assert one.shared == ("ckpt", "out", ".cache/x")


def test_job_over_several_targets_keeps_their_order() -> None:
    """The first target of `targets` is where the session lives."""
    job = parse(WHOLE).jobs["spread"]
    assert [target.name for target in job.targets] == ["ct200", "local"]
    assert job.target.name == "ct200"
    assert job.command == ("python3", "-m", "trainer")


def test_alerts_and_rules_are_kept_as_declared() -> None:
    """Sinks keep the names of variables only; rules stay as written for the detector to read."""
    inventory = parse(WHOLE)
    ops, bell = inventory.alerts.sinks
    assert (ops.url_env, ops.secret_env, ops.format) == (
        "ORCH_WEBHOOK_URL",
        "ORCH_WEBHOOK_SECRET",
        "alertmanager",
    )
    assert bell.command == ("notify-send", "orch")
    assert inventory.alerts.routes[0].to == ("ops", "bell")
    assert inventory.rules[0]["name"] == "mine"


def test_a_run_may_alert_a_signed_webhook_itself_and_nothing_else() -> None:
    """`wrapper_alert` is off unless said; it needs a webhook and its secret, by line and key."""
    ops, bell = parse(WHOLE).alerts.sinks
    assert (ops.wrapper_alert, bell.wrapper_alert) == (False, False)
    signed = b"secret_env: ORCH_WEBHOOK_SECRET"
    with_it = WHOLE.replace(signed, signed + b", wrapper_alert: true")
    assert parse(with_it).alerts.sinks[0].wrapper_alert
    (unsigned,) = faults(with_it.replace(signed + b", ", b""))
    assert "alerts.sinks.ops.secret_env: is required beside wrapper_alert" in unsigned
    (other,) = faults(WHOLE.replace(b"bell: {", b"bell: {wrapper_alert: true, "))
    assert "alerts.sinks.bell.wrapper_alert: is for sinks of type webhook" in other


@pytest.mark.parametrize("key", [b"url_env", b"secret_env"])
@pytest.mark.parametrize("value", [b"file:///etc/passwd", b"https://hooks.example/x", b"whsec_a="])
def test_an_address_in_the_place_of_its_variable_is_refused(key: bytes, value: bytes) -> None:
    """By file, line and key, and without repeating what may be a secret."""
    named = {b"url_env": b"ORCH_WEBHOOK_URL", b"secret_env": b"ORCH_WEBHOOK_SECRET"}[key]
    (problem,) = faults(WHOLE.replace(key + b": " + named, key + b": " + value))
    line = WHOLE[: WHOLE.index(b"    ops: ")].count(b"\n") + 1
    assert problem == (
        f"inventory.yaml:{line}: alerts.sinks.ops.{key.decode()}: "
        "must be the name of an environment variable; no value belongs here"
    )


def test_digest_changes_with_the_bytes() -> None:
    """Two inventories that differ by a comment have different digests."""
    assert parse(WHOLE).digest != parse(WHOLE + b"# more\n").digest


def test_shipped_inventory_is_good() -> None:
    """The example at the root parses against the real folders beside it."""
    inventory = parse_inventory(
        (ROOT / "inventory.yaml").read_bytes(),
        path="inventory.yaml",
        folder=str(ROOT),
        exists=lambda folder: Path(folder).is_dir(),
        home="/home/me",
    )
    assert inventory.jobs["dflash"].target.host.transport == "local"
    assert inventory.jobs["dflash"].workdir.startswith("/home/me/")


def test_merge_key_shares_settings_and_own_keys_win() -> None:
    """`<<` brings in what the mapping does not say itself."""
    text = (
        b"version: 1\nhosts:\n  a: &a {port: 2200, user: root}\n  b: {<<: *a, user: me}\n"
        b"  c: {<<: [{user: x}, *a]}\n"
    )
    hosts = parse(text).hosts
    assert (hosts["b"].port, hosts["b"].user) == (2200, "me")
    assert (hosts["c"].port, hosts["c"].user) == (2200, "x")


def test_merge_of_something_else_is_refused() -> None:
    """`<<` takes mappings only, and not one that it stands in."""
    assert faults(b"version: 1\n<<: 5\n") == [
        "inventory.yaml:2: inventory: merges (<<) something that is not another mapping"
    ]
    assert len(faults(b"version: 1\nhosts: &h\n  <<: *h\n")) == 1


def test_bytes_that_are_no_text_are_refused_with_their_line() -> None:
    """Latin-1 and control characters name the line they are on."""
    assert faults(b"version: 1\n# \xe9t\xe9\n") == [
        "inventory.yaml:2: inventory: is not UTF-8 text; save the file as UTF-8"
    ]
    assert faults(b"version: 1\nhosts: {}\n# \x00\n") == [
        "inventory.yaml:3: inventory: holds a character YAML forbids"
    ]


def test_huge_and_deep_documents_are_refused() -> None:
    """A file of megabytes and a nesting without end are refused, not worked on."""
    assert "is larger than" in faults(b"#" * (1 << 20) + b"\n#")[0]
    assert "is nested deeper than" in faults(b"version: " + b"[" * 60 + b"]" * 60)[0]
    assert "is nested deeper than" in faults(b"version: " + b"[" * 20_000)[0]


def test_byte_order_mark_is_no_fault() -> None:
    """A file saved by an editor that adds a byte order mark reads the same."""
    assert parse(b"\xef\xbb\xbf" + WHOLE).jobs.keys() == parse(WHOLE).jobs.keys()


def test_names_of_failures_are_those_that_detection_and_restarts_know() -> None:
    """A new signature or group must be added to the words that an inventory may use."""
    assert {item.id for item in load()} == SIGNATURES
    assert {*restart.GROUPS, restart.CUDA_ECC} == GROUPS
    unnamed = {"launch_failed", "lost", "killed", "failed_exit"}
    assert {item.id for item in WATCHED} - SIGNATURES == BY_THEMSELVES - unnamed


def test_own_rules_may_be_named() -> None:
    """A rule's name is as good as a signature's, in restart and in stop_on."""
    text = WHOLE.replace(b"on: [infra]", b"on: [mine]").replace(b"[thread_death]", b"[mine]")
    job = parse(text).jobs["dflash"]
    assert (job.restart.on, job.watch.stop_on) == (("mine",), ("mine",))


def test_an_end_that_nothing_tells_of_may_be_restarted() -> None:
    """`lost` is a word of restart.on; a run that lives cannot be stopped for it."""
    assert parse(WHOLE.replace(b"on: [infra]", b"on: [lost]")).jobs["dflash"].restart.on == (LOST,)
    with pytest.raises(InventoryError, match="no signature is named lost"):
        parse(WHOLE.replace(b"[thread_death]", b"[lost]"))


@given(st.binary(max_size=300))
def test_any_bytes_give_an_inventory_or_problems(text: bytes) -> None:
    """No input whatever raises anything but InventoryError."""
    assert outcome(text)


@given(st.text(alphabet="ab:-[]{}*&<>!|'\"\n #,?0", max_size=80))
def test_any_yaml_like_text_gives_an_inventory_or_problems(text: str) -> None:
    """Text made of YAML's own signs finds no way around the refusals."""
    assert outcome(text.encode())


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30), ("15m", 900), ("6h", 21_600), ("1h30m", 5_400), ("2d", 172_800), ("1.5m", 90)],
)
def test_durations(text: str, seconds: float) -> None:
    """Durations are read in seconds."""
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "30", "s", "-5s", "5 s", "5sx", "1h 30m", "infs"])
def test_words_that_are_no_durations(text: str) -> None:
    """A number without a unit and anything else is no duration."""
    assert parse_duration(text) is None


@pytest.mark.parametrize(
    ("text", "size"), [("50GiB", 50 * 1024**3), ("500MB", 500 * 10**6), ("1 KiB", 1024), ("7B", 7)]
)
def test_sizes(text: str, size: int) -> None:
    """Sizes are read in bytes; Ki, Mi, Gi, Ti are powers of 1024."""
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "50", "GiB", "50gib", "50 G", "-1GB"])
def test_words_that_are_no_sizes(text: str) -> None:
    """A number without a unit and anything else is no size."""
    assert parse_size(text) is None


def test_alert_rules_are_read() -> None:
    """Reminder and cool-down in seconds, quiet hours in minutes of the day."""
    alerts = parse(WHOLE).alerts
    assert (alerts.remind_s, alerts.cool_down_s) == (14_400.0, 600.0)
    assert alerts.quiet_hours == (22 * 60, 7 * 60)


@pytest.mark.parametrize("text", ["22-07", "24:00-07:00", "22:60-07:00", "08:00-08:00", "x", ""])
def test_quiet_hours_are_two_different_times(text: str) -> None:
    """Anything else is none."""
    assert parse_hours(text) is None
