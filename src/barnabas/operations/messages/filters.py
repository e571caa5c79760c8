"""`RecordFilter`: a condition on a record: a place, a path, one comparison, a text. There are no loops and
no functions in it, so it takes no longer than the record is large.

    value.customer.id=42        key~eu-        value.total>=100        header.trace-id!=abc
    value.coupon                the field is there

Places are ``key``, ``value``, ``header.NAME``, ``partition``, ``offset`` and ``timestamp``. ``=`` and
``!=`` compare (as numbers where both are), ``~`` and ``!~`` look for a part of the text, ``<``, ``<=``,
``>``, ``>=`` compare numbers, and texts by their characters. ``*`` in a path is any name; a list stands for
its items. Several conditions hold together. A record without the field meets none of them, ``!=`` and ``!~``
neither; of several values one has to fit, and for ``!=`` and ``!~`` none may be the one.

Conditions are asked of `SeenRecord`: of what is masked they see what everybody sees.
"""

import json
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from barnabas.operations.errors import OperationError
from barnabas.operations.messages.decoding import NOTHING
from barnabas.operations.messages.reading import SeenRecord

FILTERS_MAX: Final = 20
_TEXT_MAX: Final = 1_000
_STEPS_MAX: Final = 30
_NODES_MAX: Final = 10_000
_OPERATOR: Final = re.compile(r"!=|!~|<=|>=|=|~|<|>")
_NUMBERS: Final = ("partition", "offset", "timestamp")


class RecordFilter(NamedTuple):
    """One condition."""

    place: str
    path: tuple[str, ...]
    """Of a header: its name."""
    operator: str
    """Empty: the field is there."""
    text: str

    def holds(self, record: SeenRecord) -> bool | None:
        """Whether it does; None where what it asks about cannot be read, so that nobody knows."""
        if self.place in _NUMBERS:
            number = {
                "partition": record.partition,
                "offset": record.offset,
                "timestamp": record.timestamp_ms,
            }[self.place]
            return self._compare([number])
        if self.place == "header":
            parts = [part for name, part in record.headers() if name == self.path[0]]
            if not self.operator:
                return bool(parts)
            if any(part.text() is None and not part.is_null for part in parts):
                return None
            return self._compare([part.text() for part in parts])
        part = record.key if self.place == "key" else record.value
        if not self.path:
            text = part.text()
            if text is None and not part.is_null:
                return None
            return text is not None if not self.operator else self._compare([text])
        tree = part.fields()
        if tree is NOTHING:
            return False if part.is_null else None
        found = list(_at(tree, self.path))
        return bool(found) if not self.operator else self._compare(found)

    def _compare(self, values: Sequence[Any]) -> bool:
        if self.operator in {"!=", "!~"}:
            # Of several values (a list, a header that is there twice) none may fit.
            positive = self._replace(operator=self.operator[1:])
            return bool(values) and not positive._compare(values)  # noqa: SLF001 - its own
        return any(self._one(value) for value in values)

    def _one(self, value: Any) -> bool:
        text = _text(value)
        if self.operator == "~":
            return self.text in text
        left, right = _number(text), _number(self.text)
        if left is None or right is None:
            return _is_ordered(self.operator, (text > self.text) - (text < self.text))
        return _is_ordered(self.operator, (left > right) - (left < right))


def _is_ordered(operator: str, order: int) -> bool:
    """Whether the operator is true of what is less (-1), equal or greater."""
    return order in {"=": (0,), "<": (-1,), "<=": (-1, 0), ">": (1,), ">=": (0, 1)}[operator]


def parsed(text: str) -> list[RecordFilter]:
    """The conditions of a text, one a line. Raises OperationError."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) > FILTERS_MAX:
        raise OperationError(f"there are at most {FILTERS_MAX} conditions")
    return [_condition(line) for line in lines]


def _condition(line: str) -> RecordFilter:
    if len(line) > _TEXT_MAX:
        raise OperationError(f"a condition has at most {_TEXT_MAX} characters")
    sign = _OPERATOR.search(line)
    where = (line[: sign.start()] if sign else line).strip()
    operator, text = (sign[0], line[sign.end() :].strip()) if sign else ("", "")
    place, _, rest = where.partition(".")
    path = (rest,) if place == "header" and rest else tuple(rest.split(".")) if rest else ()
    if place not in {"key", "value", "header", *_NUMBERS} or not all(path) or len(path) > _STEPS_MAX:
        raise OperationError(
            f"{line!r} is no condition: it is key, value, header.NAME, partition, offset or timestamp, with a"
            " path such as value.customer.id, then one of = != ~ !~ < <= > >= and a text"
        )
    if (place == "header" and not path) or (place in _NUMBERS and (path or _number(text) is None)):
        raise OperationError(
            f"{line!r} is no condition: a header has a name, an offset is compared with a number"
        )
    return RecordFilter(place, path, operator, text)


def _at(tree: Any, path: Sequence[str]) -> Iterator[Any]:
    """The values at a path; of a tree that has very many only the first."""
    waiting, seen = [(tree, 0)], 0
    while waiting and seen < _NODES_MAX:
        node, step = waiting.pop()
        seen += 1
        if isinstance(node, list):
            if step < len(path):
                waiting += [(each, step) for each in reversed(node)]
            else:
                yield from node or [node]
        elif step == len(path):
            yield node
        elif isinstance(node, dict):
            name = path[step]
            waiting += [(each, step + 1) for each in reversed(node.values())] if name == "*" else []
            if name != "*" and name in node:
                waiting.append((node[name], step + 1))


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def _number(text: str) -> float | int | None:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
