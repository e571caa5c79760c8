"""JAAS: which login module, and its options, as one line of a configuration (``JaasConfig``) or in a file
with a section for each purpose (``java.security.auth.login.config``).

    file    => *(SECTION "{" *line "}" ";")
    line    => MODULE FLAG *(NAME "=" VALUE) ";"
    FLAG    => "required" | "requisite" | "sufficient" | "optional"
    VALUE   => a word, or a text between double quotes in which a backslash makes the next character plain

A file may have comments, as ``//`` and ``/* */``. The options are secrets: neither `repr` nor an error shows
one.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from barnabas.core.errors import ConfigError

FLAGS: Final = ("required", "requisite", "sufficient", "optional")
LENGTH_MAX: Final = 64 * 1024

_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<mark>[=;])|(?P<word>[^\s=;"']+))"""
)
_TOKEN_OF_FILE: Final = re.compile(
    r"""(?:\s|//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/)*"""
    r"""(?:(?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<mark>[=;{}])|(?P<word>[^\s=;{}"']+)|$)"""
)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_SPECIAL: Final = re.compile(r"[\"\\]")
_ESCAPED: Final = r"\\\g<0>"
_WHERE: Final = "sasl.jaas.config"
_Token: TypeAlias = tuple[str, bool]
_END: Final[_Token] = (";", False)


@dataclass(frozen=True, slots=True)
class LoginModule:
    """The login module that a line names."""

    name: str
    """The class, as ``org.apache.kafka.common.security.plain.PlainLoginModule``."""
    options: Mapping[str, str] = field(repr=False)

    def line(self) -> str:
        """As the value of ``sasl.jaas.config``."""
        options = (f'{name}="{_SPECIAL.sub(_ESCAPED, value)}"' for name, value in self.options.items())
        return f"{self.name} required {' '.join(options)};"


def parse_jaas(text: str, key: str = _WHERE) -> LoginModule:
    """The one login module of a line. Raises ConfigError, which names `key` and shows nothing of the line."""
    if len(text) > LENGTH_MAX:
        raise _refused(key, "it is too long")
    tokens = _tokens(text, key, _TOKEN)
    if len(tokens) < 2 or tokens[-1] != _END:
        raise _refused(key, "a login module ends with ;")
    words = tokens[:-1]
    if _END in words:
        raise _refused(key, "there must be one login module and no more")
    return _module(words, key)


def parse_login_file(text: str, key: str) -> dict[str, list[LoginModule]]:
    """The sections of a file, each with its login modules. Raises ConfigError, which names `key` and shows
    nothing of the text.
    """
    if len(text) > LENGTH_MAX:
        raise _refused(key, "it is too long")
    tokens = _tokens(text, key, _TOKEN_OF_FILE)
    sections: dict[str, list[LoginModule]] = {}
    while tokens:
        (name, _), *tokens = tokens
        if not tokens or tokens.pop(0) != ("{", False):
            raise _refused(key, "each section is NAME { ... };")
        modules = sections.setdefault(name, [])
        while tokens and tokens[0] != ("}", False):
            if _END not in tokens:
                raise _refused(key, "a login module ends with ;")
            end = tokens.index(_END)
            modules.append(_module(tokens[:end], key))
            tokens = tokens[end + 1 :]
        if tokens[:2] != [("}", False), _END]:
            raise _refused(key, "a section ends with };")
        tokens = tokens[2:]
    return sections


def _module(words: list[_Token], key: str) -> LoginModule:
    """A line without its end."""
    if not words:
        raise _refused(key, "it begins with the class of a login module")
    (name, quoted), (flag, _) = words[0], words[1] if len(words) > 1 else ("", False)
    if quoted or name == "=":
        raise _refused(key, "it begins with the class of a login module")
    if flag.lower() not in FLAGS:
        raise _refused(key, f"behind the login module comes one of {', '.join(FLAGS)}")
    rest = words[2:]
    options: dict[str, str] = {}
    for position in range(0, len(rest), 3):
        triple = rest[position : position + 3]
        if len(triple) < 3 or triple[1] != ("=", False) or triple[2] == ("=", False):
            raise _refused(key, "each option is name=value")
        options[triple[0][0]] = triple[2][0]
    return LoginModule(name, options)


def _tokens(text: str, key: str, form: re.Pattern[str]) -> list[_Token]:
    """The words and marks of a text, each with whether it stood between quotes."""
    tokens: list[_Token] = []
    position, end = 0, len(text.rstrip())
    while position < end:
        match = form.match(text, position)
        if match is None:
            raise _refused(key, "a quote is not closed")
        if not match.lastgroup:  # a comment is the last of a file
            break
        quoted = match["quoted"]
        if quoted is None:
            tokens.append((match["mark"] or match["word"], False))
        else:
            tokens.append((_ESCAPE.sub(r"\1", quoted[1:-1]), True))
        position = match.end()
    return tokens


def _refused(key: str, problem: str) -> ConfigError:
    return ConfigError(f"Invalid value [hidden] for configuration {key}: {problem}")
