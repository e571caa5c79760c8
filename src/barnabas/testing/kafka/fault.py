"""`Fault`: which requests fail in a test, when, and how. A value; `Kafka.plant` puts it to work."""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, Final, Literal, TypeAlias, get_args

from barnabas.core.errors import ErrorCode
from barnabas.protocol.api import ApiKey

When: TypeAlias = Literal["before", "after"]
"""Before the broker does what it is asked, or after it has done it and before the answer leaves."""

NUMBERS_MAX: Final = 2**31 - 1


@dataclass(frozen=True, slots=True, init=False)
class Fault:
    """Requests that fail. Whatever is not given matches everything.

    What fails is the smallest part of a request that is named: with a `topic` and a `partition` this one
    partition is answered with the error, and the rest of the request is served as ever. Without `error`,
    `delay_ms` or `cut` the fault does nothing but count (`PlantedFault.wait`).

    Raises ValueError, with what was meant where that can be guessed, for a name or number that cannot be, and
    TypeError for what is neither.
    """

    apis: tuple[ApiKey, ...]
    """The APIs, given as one name ("Produce", "PRODUCE"), a key or several of them; empty means each API that
    clients ask.
    """
    topic: str | None = None
    partition: int | None = None
    """Of the `topic`."""
    id: str | None = None
    """A group or a transactional id."""
    client_id: str | None = None
    node: int | None = None
    """The broker that answers."""
    when: When = "before"
    error: ErrorCode | None = None
    """The code of the answer, given by name, number or as `ErrorCode`."""
    delay_ms: float = 0.0
    """How long the request, or its answer, is held back before all else."""
    cut: bool = False
    """Whether the connection is closed instead of an answer."""
    count: int | None = 1
    """How many requests are hit; None: each one until the fault is removed."""
    skip: int = 0
    """How many matching requests are let through first."""
    brokers: bool = False
    """Whether requests of brokers (followers, the controller) are hit too."""

    def __init__(
        self,
        apis: "str | int | ApiKey | Iterable[str | int | ApiKey]" = (),
        *,
        topic: str | None = None,
        partition: int | None = None,
        id: str | None = None,  # noqa: A002 - Kafka's word
        client_id: str | None = None,
        node: int | None = None,
        when: When = "before",
        error: "str | int | ErrorCode | None" = None,
        delay_ms: float = 0.0,
        cut: bool = False,
        count: int | None = 1,
        skip: int = 0,
        brokers: bool = False,
    ) -> None:
        several = (apis,) if isinstance(apis, (str, int)) else tuple(apis)
        values: dict[str, Any] = {
            "apis": tuple(_api(each) for each in several),
            "topic": topic,
            "partition": partition,
            "id": id,
            "client_id": client_id,
            "node": node,
            "when": when,
            "error": None if error is None else _error(error),
            "delay_ms": delay_ms,
            "cut": bool(cut),
            "count": count,
            "skip": skip,
            "brokers": bool(brokers),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)
        self._check()

    def _check(self) -> None:
        if self.when not in get_args(When):
            raise ValueError(f"when={self.when!r}: it is 'before' or 'after'")
        if self.partition is not None and self.topic is None:
            raise ValueError("partition needs the topic that it is of")
        if self.cut and self.error is not None:
            raise ValueError("cut and error exclude each other: a connection that is closed has no answer")
        if self.error is ErrorCode.NONE:
            raise ValueError("error=NONE is no error; leave it out to have requests counted only")
        for name in ("topic", "id", "client_id"):
            text = getattr(self, name)
            if text is not None and not isinstance(text, str):
                raise TypeError(f"{name}={text!r}: it is a text")
        for name in ("partition", "node", "count", "skip", "delay_ms"):
            number = getattr(self, name)
            least = 1 if name == "count" else 0
            if number is None:
                continue
            if not isinstance(number, (int, float) if name == "delay_ms" else int):
                raise TypeError(f"{name}={number!r}: it is a number")
            if not least <= number <= NUMBERS_MAX:
                raise ValueError(f"{name}={number}: it is from {least} to {NUMBERS_MAX}")

    @classmethod
    def parse(cls, words: Iterable[str]) -> "Fault":
        """A fault from words as ``topic=orders error=NOT_LEADER_OR_FOLLOWER``; ``apis=`` takes names with
        commas.

        Raises ValueError for what is no field, and what its field does not take.
        """
        given: dict[str, Any] = {}
        for word in words:
            name, equals, text = word.partition("=")
            if not equals:
                raise ValueError(f"{word!r}: write it as field=value")
            given[name] = text
        return cls.of(given)

    @classmethod
    def of(cls, given: "dict[str, Any]") -> "Fault":
        """A fault from a mapping whose values may be texts, as JSON and command lines have them.

        Raises ValueError as `parse`.
        """
        known = {each.name for each in fields(cls)}
        values = dict(given)
        for name in values:
            if name not in known:
                raise ValueError(f"a fault has no field {name!r}{_meant(name, known)}")
        for name in ("partition", "node", "count", "skip", "delay_ms"):
            if isinstance(text := values.get(name), str):
                values[name] = _number(name, text)
        for name in ("cut", "brokers"):
            if isinstance(text := values.get(name), str):
                values[name] = _truth(name, text)
        apis = values.pop("apis", ())
        return cls(apis.split(",") if isinstance(apis, str) else apis, **values)

    def __str__(self) -> str:
        shown = ["/".join(api.name for api in self.apis) or "any API"]
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name != "apis" and value != each.default:
                shown.append(f"{each.name}={value.name if isinstance(value, ErrorCode) else value}")
        return " ".join(shown)


def _plain(name: str) -> str:
    """A name without case and signs: people write Produce, PRODUCE, ListOffsets, list_offsets."""
    return "".join(sign for sign in name if sign.isalnum()).lower()


_APIS: Final = {_plain(api.name): api for api in ApiKey}
_ERRORS: Final = {code.name: code for code in ErrorCode}


def _api(given: "str | int | ApiKey") -> ApiKey:
    if not isinstance(given, (str, int)):
        raise TypeError(f"no API is called {given!r}")
    if isinstance(given, int) or given.isdecimal():
        if int(given) not in set(ApiKey):
            raise ValueError(f"no API has the key {given}")
        return ApiKey(int(given))
    api = _APIS.get(_plain(given))
    if api is None:
        raise ValueError(f"no API is called {given!r}{_meant(_plain(given), _APIS)}")
    return api


def _error(given: "str | int | ErrorCode") -> ErrorCode:
    if not isinstance(given, (str, int)):
        raise TypeError(f"no error is called {given!r}")
    if isinstance(given, int) or given.lstrip("-").isdecimal():
        if int(given) not in set(ErrorCode):
            raise ValueError(f"no error has the code {given}")
        return ErrorCode(int(given))
    code = _ERRORS.get(given.upper())
    if code is None:
        raise ValueError(f"no error is called {given!r}{_meant(given.upper(), _ERRORS)}")
    return code


def _meant(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), 1)
    return f": did you mean {close[0]}?" if close else ""


def _number(name: str, text: str) -> float | int | None:
    if name == "count" and text in ("", "all"):
        return None
    try:
        return float(text) if name == "delay_ms" else int(text)
    except ValueError:
        raise ValueError(f"{name}={text}: it is a number") from None


def _truth(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"{name}={text}: it is true or false")
    return text.lower() == "true"
