"""What looks like a secret leaves no text; what only speaks of tokens stays."""

import time

import pytest

from orchestrator.core.parse.secrets import REMOVED, redact


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("login with hf_" + "aB3" * 10, f"login with {REMOVED}"),
        ("OPENAI_API_KEY=sk-proj-" + "x1" * 20, f"OPENAI_API_KEY={REMOVED}"),
        ('{"wandb_api_key": "0123456789abcdef"}', f'{{"wandb_api_key": "{REMOVED}"}}'),
        ("Authorization: Bearer abc.def-123456", f"Authorization: Bearer {REMOVED}"),
        ("git clone https://me:hunter22@host/x", f"git clone https://me:{REMOVED}@host/x"),
        ("password = correcthorse", f"password = {REMOVED}"),
        ("AKIA" + "A1" * 8, REMOVED),
        ("export HF_TOKEN='abcdefghij'", f"export HF_TOKEN='{REMOVED}'"),
    ],
)
def test_tokens_are_removed(text: str, kept: str) -> None:
    """Known shapes, and whatever stands behind a name that speaks of a secret."""
    assert redact(text) == (kept, 1)


@pytest.mark.parametrize(
    "text",
    [
        "tokens/s: 18231, tokens seen 3.2e9",
        "step 12 loss 5.3 tokens=524288",
        "pad_token: <pad>",
        "KeyError: 'custom'",
        "max_tokens = 4096",
    ],
)
def test_ordinary_words_stay(text: str) -> None:
    """A language model's log speaks of tokens all day."""
    assert redact(text) == (text, 0)


def test_values_are_removed_wherever_they_stand() -> None:
    """A value known to be secret goes, the longest first, but one too short to mean anything."""
    text = "url=http://h/T0P/T0PSECRET and abc"
    assert redact(text, ["T0P/", "T0PSECRET", "T0P/T0PSECRET", "abc"]) == (
        f"url=http://h/{REMOVED} and abc",
        1,
    )


def test_no_text_makes_it_slow() -> None:
    """A megabyte of nearly-tokens takes no longer than a megabyte of prose deserves."""
    for part in ("token token=", "a" * 64 + "://", "-----BEGIN PRIVATE KEY-----", "eyJaaaaaaaa."):
        began = time.monotonic()
        redact(part * (1_000_000 // len(part)))
        assert time.monotonic() - began < 20
