"""Lines of the log: one event is one line of bounded length, whatever a client put into it."""

import io
import logging
import sys

import pytest

from barnabas.core.eventlog import (
    VALUE_CHARACTERS_MAX,
    VALUE_ITEMS_MAX,
    EventFormatter,
    EventLog,
    format_event,
)
from barnabas.core.ids import TopicPartition


def line(value):
    return format_event("event", {"field": value})


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("plain", "plain"),
        (7, "7"),
        ("", '""'),
        ("two words", '"two words"'),
        ('a "quote"', r'"a \"quote\""'),
        ("a=b", '"a=b"'),
        ("back\\slash", "back\\slash"),
        ("back\\slash and blank", r'"back\\slash and blank"'),
        ("\n", r'"\n"'),
        ("a\r\nb\tc", r'"a\r\nb\tc"'),
        ("\x1b[2J\x07", r'"\x1b[2J\x07"'),
        ("\x7f\x80", r'"\x7f\x80"'),
        ("line\u2028paragraph\u2029", r'"line\u2028paragraph\u2029"'),
        ("\u202eback to front", r'"\u202eback to front"'),
        ("half a pair \udc80", r'"half a pair \udc80"'),
        ("größer", "größer"),
        (TopicPartition("orders", 3), "orders-3"),
        (["a", "b"], "\"['a', 'b']\""),
    ],
)
def test_a_value_is_shown_as_it_is_or_quoted_with_control_characters_escaped(value, expected):
    assert line(value) == f"event field={expected}"


@pytest.mark.parametrize("character", ["x", "\x1b", '"'])
def test_a_long_value_is_cut_and_says_how_long_it_was(character):
    shown = line(character * 50_000_000)

    assert shown.count("x") >= VALUE_CHARACTERS_MAX or character == '"'
    assert "(50000000 characters)" in shown
    assert len(shown) < 5 * VALUE_CHARACTERS_MAX


@pytest.mark.parametrize("kind", [list, set, frozenset, dict.fromkeys])
def test_of_a_large_collection_some_are_shown_and_all_are_counted(kind):
    numbers = kind(range(VALUE_ITEMS_MAX + 1))

    assert line(numbers) == f'event field="[{", ".join(map(str, range(VALUE_ITEMS_MAX)))}, ... (21 in all)]"'
    assert str(VALUE_ITEMS_MAX) not in line(kind(range(VALUE_ITEMS_MAX)))


def test_text_of_what_is_not_shown_is_never_made():
    class Costly:
        made = 0

        def __repr__(self):
            Costly.made += 1
            return "costly"

    line([Costly() for _ in range(1000)])

    assert Costly.made == VALUE_ITEMS_MAX


def test_a_traceback_neither_moves_the_cursor_nor_fills_the_disk():
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(EventFormatter("%(levelname)s %(message)s"))
    logger = logging.getLogger("barnabas.test-of-tracebacks")
    logger.addHandler(handler)
    failure = ValueError("the first of many")
    for _ in range(100):
        try:
            raise ValueError("\x1b[2J\r" + "x" * 40_000) from failure
        except ValueError as error:
            failure = error
    EventLog("test-of-tracebacks").error("gone.wrong", exc_info=failure)
    logger.removeHandler(handler)
    text = stream.getvalue()
    assert text.startswith("ERROR gone.wrong\n")
    assert all(line.isprintable() and len(line) < 1100 for line in text.split("\n"))
    assert len(text.split("\n")) < 250


def test_a_traceback_still_says_what_was_wrong_and_where():
    try:
        raise ValueError("\x1b[2J" + "x" * 40_000)
    except ValueError:
        text = EventFormatter().formatException(sys.exc_info())
    assert "test_eventlog.py" in text
    assert "ValueError: \\x1b[2Jxxx" in text
    assert text.endswith("... (40016 characters)")
