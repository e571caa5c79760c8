"""A table of a TOML file whose keys are asked for by name and type;
a key that nothing asked for is refused.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from barnabas.core.config import neighbour
from barnabas.spark.errors import OptionError, PipelineError
from barnabas.spark.options import TIME_UNITS_MS, parse_duration_ms


def unknown(key: str, names: Sequence[str]) -> str:
    """The words for a key that there is not, with the name that was probably meant."""
    meant = neighbour(key, names)
    hint = f"did you mean {meant}?" if meant else f"there are {', '.join(names)}"
    return f"is unknown; {hint}"


def flattened(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Names with dots as they were written: TOML makes a table of each part."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from flattened(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


class Section:
    """One table. Each method raises PipelineError for a value of another type;
    what may be a password is not shown.
    """

    def __init__(self, values: Mapping[str, Any], path: str = "") -> None:
        self._values = dict(values)
        self._path = path
        self._asked: list[str] = []

    def __contains__(self, key: str) -> bool:
        self._asked.append(key)
        return key in self._values

    def peek(self, key: str) -> Any:
        """The value as it stands, None where there is none."""
        return self._values.get(key)

    def text(self, key: str, default: str | None = None) -> str:
        """A text that is not empty; without a default it must be there."""
        value = self.optional_text(key)
        if value is not None or default is not None:
            return value if value is not None else str(default)
        raise self.missing(key, "is missing")

    def optional_text(self, key: str) -> str | None:
        """A text that is not empty, or None where there is none."""
        value = self._take(key)
        if value is not None and (not isinstance(value, str) or not value.strip()):
            raise self.wrong(key, "must be a text that is not empty")
        return value

    def duration_ms(self, key: str, default: str) -> int:
        """A time with its unit, in milliseconds: one at least."""
        text = self.time(key, default)
        try:
            found = parse_duration_ms(text)
        except OptionError as error:
            raise self.wrong(key, f"is wrong: {error}") from None
        if found < 1:
            raise self.wrong(key, f"is {text!r}: it must be 1ms at least")
        return found

    def time(self, key: str, default: str) -> str:
        """A time as it is written, or a word: a bare number is refused, be it in quotes or not."""
        value = self.peek(key)
        text = str(value) if type(value) is int else self.text(key, default)
        self.require_unit(key, text)
        return text

    def require_unit(self, key: str, text: str) -> None:
        """Refuses a bare number: Spark takes it for milliseconds, and who writes it means seconds."""
        if text.strip().isdigit():
            raise self.wrong(
                key,
                f'is {text!r}, which has no unit: it must be a time such as "{text.strip()}s"; '
                f"there are {', '.join(TIME_UNITS_MS)}",
            )

    def choice(self, key: str, allowed: Sequence[str], default: str | None = None) -> str:
        """One of some texts."""
        value = self.text(key, default)
        if value not in allowed:
            raise self.wrong(key, f"is {value!r}: it must be one of {', '.join(allowed)}")
        return value

    def whole(self, key: str, *, most: int) -> int | None:
        """A whole number from 0 to `most`, or None where there is none."""
        value = self._take(key)
        if value is not None and (type(value) is not int or not 0 <= value <= most):
            raise self.wrong(key, f"is {value!r}: it must be a whole number from 0 to {most}")
        return value

    def share(self, key: str) -> float | None:
        """A number from 0 to 1, or None where there is none."""
        value = self._take(key)
        if value is not None and (type(value) not in {int, float} or not 0 <= value <= 1):
            raise self.wrong(key, f"is {value!r}: it must be a number from 0 to 1")
        return None if value is None else float(value)

    def flag(self, key: str) -> bool:
        """True or false, false unless given."""
        value = self._take(key)
        if value is not None and type(value) is not bool:
            raise self.wrong(key, f"is {value!r}: it must be true or false")
        return bool(value)

    def sections(self, key: str, *, most: int) -> "list[Section]":
        """A list of tables (``[[key]]``), empty unless given."""
        value = self._take(key)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
            raise self.wrong(key, f"must be tables, each below [[{key}]]")
        if len(value) > most:
            raise self.wrong(key, f"has {len(value)} tables: at most {most}")
        return [Section(one, f"{self._name(key)}[{number}]") for number, one in enumerate(value)]

    def wholes(self, key: str, *, most: int) -> tuple[int, ...]:
        """A list of whole numbers from 0 to `most`, empty unless given; one that is given has some."""
        value = self._take(key)
        if value is None:
            return ()
        if (
            not isinstance(value, list)
            or not value
            or not all(type(one) is int and 0 <= one <= most for one in value)
        ):
            raise self.wrong(key, f"is {value!r}: it must be a list of whole numbers from 0 to {most}")
        return tuple(value)

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts, empty unless given."""
        value = self._take(key)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(one, str) and one for one in value):
            raise self.wrong(key, f'is {value!r}: it must be a list of texts, such as ["a"]')
        return tuple(value)

    def over(self, key: str) -> "dict[str, Section]":
        """Of a table of tables each as if its keys stood here, over those of this one; empty unless given."""
        value = self._take(key)
        if value is None:
            return {}
        if not isinstance(value, dict) or not all(isinstance(one, dict) for one in value.values()):
            raise self.wrong(key, f'must be tables, each as [{self._name(key)}."name"]')
        own = {name: one for name, one in self._values.items() if name != key}
        return {name: Section({**own, **one}, f'{self._name(key)}."{name}"') for name, one in value.items()}

    def section(self, key: str) -> "Section":
        """A table in this one, empty unless given."""
        value = self._take(key)
        if value is not None and not isinstance(value, dict):
            raise self.wrong(key, f"is {value!r}: it must be a table")
        return Section(value or {}, self._name(key))

    def settings(self) -> dict[str, str]:
        """All keys of the table as Spark's texts, with dots in their names."""
        found = {}
        for name, value in flattened(self._values):
            if type(value) not in {str, int, float, bool}:
                several = (
                    ', not a list: several values are one text with commas, such as "a,b"'
                    if isinstance(value, list)
                    else ""
                )
                raise self.wrong(name, f"must be a text, a number, true or false{several}")
            found[name] = str(value).lower() if isinstance(value, bool) else str(value)
        return found

    def close(self) -> None:
        """Refuses the keys that nothing has asked for. One that is misspelt goes first: others may be asked
        for with it only.
        """
        names = list(dict.fromkeys(self._asked))
        left = [key for key in self._values if key not in names]
        for key in sorted(left, key=lambda each: neighbour(each, names) is None):
            raise self.wrong(key, unknown(key, names))

    def wrong(self, key: str, words: str) -> PipelineError:
        """The error that names a key of this table."""
        return PipelineError(f"{self._name(key)} {words}")

    def missing(self, key: str, words: str) -> PipelineError:
        """The error for a key that must be there; it names the misspelt one where there is such."""
        misspelt = neighbour(key, [given for given in self._values if given not in self._asked])
        return self.wrong(key, words) if misspelt is None else self.wrong(misspelt, unknown(misspelt, [key]))

    def _take(self, key: str) -> Any:
        self._asked.append(key)
        return self._values.get(key)

    def _name(self, key: str) -> str:
        return f"{self._path}.{key}" if self._path else key
