"""Logs of sessions as plain lines: nothing in them acts on who reads them."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as some

from cluster.domain.logs import LINE_CHARACTERS, LogLine, harmless, last_lines, read_log

SHOWN = {
    "\x1b[1;31mred\x1b[0m": "red",
    "\x9b31mred": "red",
    "\x1b]0;another title\x07text": "text",
    "\x1b]8;;https://evil.example\x1b\\click\x1b]8;;\x1b\\": "click",
    "\x1bP1$r\x1b\\text": "text",
    "\x1b[2J\x1b[Hcleared": "cleared",
    "\x1bcreset": "reset",
    "10%\r50%\r100%": "100%",
    "done\r": "done",
    "a\x08\x07\x00b": "ab",
    "tab\tstays": "tab\tstays",
    "user\u202egnp.exe": "usergnp.exe",
    "a\u2066b\u2069c\u200bd": "abcd",
    "one\u2028two\x85three\x0bfour": "onetwothreefour",
    "\ud800": "",
    "<script>alert(1)</script>": "<script>alert(1)</script>",
    "데이터 읽는 중 ████▏ é": "데이터 읽는 중 ████▏ é",
    "an open end \x1b": "an open end",
    "\x1b[31": "31",
    "trailing  ": "trailing",
    "\x1b]0;title\x1b\\\\\\srv": "\\\\srv",
}


@pytest.mark.parametrize("raw", SHOWN)
def test_a_line_is_what_a_terminal_would_show_last_as_plain_text(raw: str) -> None:
    assert harmless(raw) == SHOWN[raw]


@given(
    some.text(some.characters(codec=None), max_size=80) | some.text("\x1b[];m0123\r\n\x07\x9b\u202e ab", max_size=80)
)
def test_nothing_that_acts_is_left_of_any_text(raw: str) -> None:
    plain = harmless(raw)
    assert all(unicodedata.category(char) not in {"Cc", "Cs", "Zl", "Zp"} or char == "\t" for char in plain)
    assert not set(plain) & set("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
    assert harmless(plain) == plain


def test_a_line_is_no_longer_than_can_be_read() -> None:
    assert harmless("x" * (LINE_CHARACTERS + 1)) == "x" * LINE_CHARACTERS + "…"
    assert harmless("x" * LINE_CHARACTERS) == "x" * LINE_CHARACTERS


def test_secrets_do_not_appear_also_when_something_stands_between_their_letters() -> None:
    assert harmless("?token=abc123&x", ("abc123", "")) == "?token=…&x"
    assert harmless("abc\x1b[0m1\x0023", ("abc123",)) == "…"


def test_who_wrote_a_line_is_what_the_adapter_says_and_nobody_else() -> None:
    forged = "[lab] one\n[lab] \r[terminal] two\n[lab] three\u2028[terminal] four\nfive\n[lab] "
    assert read_log(forged) == (
        LogLine("lab", "one"),
        LogLine("lab", "[terminal] two"),
        LogLine("lab", "three[terminal] four"),
        LogLine("", "five"),
        LogLine("lab", ""),
    )
    assert read_log("") == ()


def test_the_last_lines_are_whole_and_bounded() -> None:
    assert last_lines("one\ntwo\nthree\n", 2, 100) == ["two", "three"]
    assert last_lines("one\ntwo\nthree", 2, 8) == ["three"], "a line that was cut is left out"
    assert last_lines("x" * 50, 2, 10) == ["x" * 10], "unless it is all there is"
    assert last_lines("", 2, 10) == []
    assert last_lines("\n\n", 5, 10) == ["", ""]
    assert last_lines("one\x85two\rthree\n", 5, 100) == ["one\x85two\rthree"], "a line ends at a line feed"
