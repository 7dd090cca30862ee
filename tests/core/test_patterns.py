"""Patterns that people write: none can be tried for ever, and what cannot be searched is said."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.detect.engine import diagnose
from orchestrator.core.detect.signatures import parse_rule
from orchestrator.core.parse.metrics import PatternMetrics
from orchestrator.core.patterns import Pattern, any_of, read_pattern
from orchestrator.core.watch.rule_watch import RuleWatch

EVIL = (
    *("(a|a)+$", "(a+)+$", "(a|aa)+$", "^(a*)*$", "^([a-zA-Z]+)*$", "(.*a){20}$", "(a?){40}a{40}$"),
    *(r"(\w+\s?)+$", r"^(([a-z])+.)+[A-Z]([a-z])+$", r"^(?:a|a?)+$", "(a+a+)+b"),
)
"""The classical ones: each of them keeps `re` busy for longer than anybody lives."""
LINE = "a" * 16_000 + "!"


@pytest.mark.parametrize("text", EVIL)
def test_no_pattern_is_tried_for_ever(text: str) -> None:
    """A line of thousands of letters is decided at once, whatever is asked of it."""
    assert read_pattern(text).search(LINE) is None


@pytest.mark.parametrize(
    ("text", "words"), [("(a|a)+$", b"aaa"), ("(a+a+)+b", b"aab"), (r"^(\w+\s?)+$", b"a b")]
)
def test_rule_that_could_be_tried_for_ever_is_searched_like_any_other(
    text: str, words: bytes
) -> None:
    """A log with such a line is diagnosed, and the rule still finds what it is for."""
    rule = parse_rule({"name": "letters", "pattern": text, "fault_on_match": True})
    log = f"{LINE}\n".encode() * 3
    assert not diagnose([log], [rule]).crash
    assert diagnose([log + words + b"\n"], [rule]).signature == "letters"


def test_watch_and_metrics_are_searched_the_same_way() -> None:
    """What a rule waits for and what a job counts hold nothing up either."""
    rule = parse_rule({"name": "beat", "pattern": "(a+)+b", "until": "(a|a)+c", "every": "10s"})
    assert rule.expectation is not None
    watch = RuleWatch(rule, rule.expectation, 0.0, seen_before=True)
    watch.line(LINE, 1.0)
    assert watch.wrong(12.0) == "beat: no next line within 10 s"
    watch.line("aac", 13.0)
    assert watch.wrong(99.0) is None
    metrics = PatternMetrics({"loss": r"(?:a+)+ loss (?P<value>\d+\.\d+)"})
    assert metrics.read(LINE) == {}
    assert metrics.read("a loss 1.5, aa loss 0.5") == {"loss": 0.5}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("lost(?=!)", "looks ahead or behind"),
        ("(?!x)lost", "looks ahead or behind"),
        ("(?<=x)lost", "looks ahead or behind"),
        ("(?<!x)lost", "looks ahead or behind"),
        (r"(a)\1", "refers to an earlier group"),
        ("(?P<a>x)(?P=a)", "refers to an earlier group"),
        ("a{0,5000}", "repeats something more than 1000 times"),
        ("((a{99}){99}){99}", "repeats something more than 1000 times"),
        ("a++b", "is not for RE2"),
        ("(", "is no regular expression"),
    ],
)
def test_what_cannot_be_searched_is_refused_with_the_reason(text: str, reason: str) -> None:
    """The sentence says what the pattern does; a rule's fault names the key as well."""
    with pytest.raises(ValueError, match=reason):
        read_pattern(text)
    with pytest.raises(ValueError, match=f"^until: .*{reason}"):
        parse_rule({"name": "a", "pattern": "x", "until": text})


def test_two_patterns_of_a_rule_cannot_name_one_group() -> None:
    """Only one of them would be read for its number."""
    with pytest.raises(ValueError, match=r"^pattern: several patterns have a group v"):
        parse_rule({"name": "a", "pattern": ["(?P<v>x)y", "(?P<v>x)z"]})


def test_flags_belong_to_the_pattern_that_has_them() -> None:
    """`(?i)` in one of several patterns leaves the others as they are."""
    both = any_of([read_pattern("(?i)lost").text, read_pattern("gone").text])
    assert both.search("LOST")
    assert not both.search("GONE")


@pytest.mark.parametrize(
    ("text", "yes", "no"),
    [
        (r"\Aab\Z", "ab", "xab"),
        ("ab{,2}c", "abbc", "abbbc"),
        ("x[{,2}]", "x{", "x3"),
        ("[]a]b", "]b", "[b"),
        (r"\u00e9t\u00e9", "\u00e9t\u00e9", "ete"),
        (r"\\Z", "\\Z", ""),
    ],
)
def test_what_only_python_writes_so_is_understood(text: str, yes: str, no: str) -> None:
    """Anchors, counts and letters that RE2 spells otherwise mean what they mean in Python."""
    assert re.search(text, yes)
    assert read_pattern(text).search(yes)
    assert not read_pattern(text).search(no)


@given(st.text(max_size=20), st.text(max_size=20))
def test_words_are_found_as_they_are_whatever_their_letters(words: str, rest: str) -> None:
    """An escaped text is found in any text that holds it, half surrogates and all."""
    assert Pattern(re.escape(words)).search(f"{rest}{words}{rest}")
