"""What relays are handed of the sinks: whole ones alone, as the standard library takes them."""

import base64

from orchestrator.core.model import SinkSpec
from orchestrator.sinks.handover import Receiver, handed, receivers
from tests.sinks.alerts import SECRET

OPS = SinkSpec(name="ops", type="webhook", url_env="URL", secret_env="SECRET", wrapper_alert=True)
PLAIN = SinkSpec(name="plain", type="webhook", url_env="URL", secret_env="SECRET")


def test_only_sinks_that_say_so_are_handed_over_with_both_keys_of_a_change() -> None:
    """Address and keys of `wrapper_alert` sinks; two secrets while one takes the other's place."""
    other = "whsec_" + base64.b64encode(b"k" * 24).decode()
    values = {"URL": "https://user:pw@müller.example:8443/a b?c=d", "SECRET": f"{SECRET} {other}"}
    (found,) = handed((OPS, PLAIN), values.get)
    assert found["name"] == "ops"
    assert found["url"] == "https://user:pw@xn--mller-kva.example:8443/a%20b?c=d"
    assert found["keys"] == [SECRET.removeprefix("whsec_"), other.removeprefix("whsec_")]
    assert receivers((OPS, PLAIN), values.get) == (
        Receiver(name="ops", host="müller.example", port=8443),
    )


def test_what_lacks_its_address_or_a_good_secret_is_not_handed_over() -> None:
    """A relay sends nothing unsigned, and nothing but http and https."""
    assert handed((OPS,), {"SECRET": SECRET}.get) == []
    assert handed((OPS,), {"URL": "http://127.0.0.1/"}.get) == []
    assert handed((OPS,), {"URL": "http://127.0.0.1/", "SECRET": "whsec_short"}.get) == []
    assert handed((OPS,), {"URL": "file:///etc/passwd", "SECRET": SECRET}.get) == []
