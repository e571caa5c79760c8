"""From a client's certificate to a principal (``DefaultKafkaPrincipalBuilder``, ``SslPrincipalMapper``).

The subject's name is written as Java's ``X500Principal.getName()`` writes it, because rules and ACLs of a
cluster are made of such names: RFC 2253, the last part first, nine keywords, any other attribute by its
number. What has no keyword, or is no text to Java, has the value's bytes in hexadecimal. `Mapper` makes a
short name of it:

    rules => rule *("," rule)
    rule  => "DEFAULT" | "RULE:" PATTERN "/" REPLACEMENT "/" ["L" | "U"]
"""

import re
from dataclasses import dataclass
from typing import Any, Final

from barnabas.core.errors import ConfigError
from barnabas.network.errors import AuthenticationError

KEY: Final = "ssl.principal.mapping.rules"

_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
_TEXTS: Final = frozenset({0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E})
"""The tags of what Java takes for a text (``AVA.isDerString``): UTF8, Printable, T61, IA5, General, BMP."""
_ESCAPED: Final = re.compile(r'[,=+<>#;"\\]')
_RULE: Final = re.compile(
    r"\s*(?:(?P<default>DEFAULT)|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?))"
    r"\s*(?:,|$)",
    re.DOTALL,
)


def distinguished_name(certificate: bytes) -> str:
    """The subject of a certificate in DER. Raises AuthenticationError for what is no certificate."""
    # Only a client with a certificate needs the library.
    from cryptography import x509  # noqa: PLC0415

    try:
        subject = x509.load_der_x509_certificate(certificate).subject
        return ",".join(relative_names(subject))
    except ValueError as error:
        raise AuthenticationError(f"the client's certificate cannot be read: {error}") from error


def relative_names(subject: Any) -> list[str]:
    """The parts of the name of a subject, the last one first. Raises ValueError."""
    return ["+".join(map(_attribute, rdn)) for rdn in reversed(subject.rdns)]


def _attribute(attribute: Any) -> str:
    number = attribute.oid.dotted_string
    keyword, value = _KEYWORDS.get(number), _value_bytes(attribute)
    if keyword is None or value[0] not in _TEXTS:
        return f"{keyword or number}=#{value.hex()}"
    # Java reads the bytes as UTF-8, whatever the type says: a BMPString has a NUL before each Latin letter.
    text = value[_header_size(value) :].decode(errors="replace")
    text = _ESCAPED.sub(r"\\\g<0>", text).replace("\0", r"\00")
    stripped = text.strip(" ")
    if not stripped:
        return f"{keyword}=" + "\\ " * len(text)
    lead = len(text) - len(text.lstrip(" "))
    trail = len(text) - len(text.rstrip(" "))
    return f"{keyword}=" + "\\ " * lead + stripped + "\\ " * trail


def _value_bytes(attribute: Any) -> bytes:
    """The attribute's value in DER, as it stands in the certificate."""
    from cryptography import x509  # noqa: PLC0415

    # SEQUENCE of SET of SEQUENCE of OBJECT IDENTIFIER and value.
    data: bytes = x509.Name([attribute]).public_bytes()
    for _ in range(3):
        data = data[_header_size(data) :]
    oid_size = _header_size(data) + data[1]
    return data[oid_size:]


def _header_size(data: bytes) -> int:
    return 2 if data[1] < 0x80 else 2 + (data[1] & 0x7F)


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: re.Pattern[str] | None
    """None for DEFAULT, which takes each name as it is."""
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        match = self.pattern.fullmatch(name)
        if match is None:
            return None
        result = re.sub(r"\$(\d)", lambda ref: _group(match, ref), self.replacement)
        return {"L": result.lower(), "U": result.upper()}.get(self.case, result)


def _group(match: re.Match[str], reference: re.Match[str]) -> str:
    number = int(reference[1])
    return (match[number] or "") if number <= match.re.groups else reference[0]


class Mapper:
    """``ssl.principal.mapping.rules``; the first rule that matches counts."""

    def __init__(self, text: str) -> None:
        """Raises ConfigError for rules that are none."""
        self._text = text
        self._rules: list[_Rule] = []
        position, end = 0, len(text.rstrip())
        while position < end:
            match = _RULE.match(text, position)
            if match is None:
                raise ConfigError(
                    f"Invalid value {text} for configuration {KEY}: Invalid rule: {text[position:]}"
                )
            position = match.end()
            if match["default"]:
                self._rules.append(_Rule(None))
                continue
            try:
                pattern = re.compile(match["pattern"])
            except re.error as error:
                raise ConfigError(f"Invalid value {text} for configuration {KEY}: {error}") from None
            self._rules.append(_Rule(pattern, match["replacement"], match["case"]))

    def principal_of(self, certificate: bytes) -> str:
        """The principal of a certificate in DER. Raises AuthenticationError where no rule applies."""
        name = distinguished_name(certificate)
        for rule in self._rules or [_Rule(None)]:
            short = rule.apply(name)
            if short is not None:
                return f"User:{short}"
        raise AuthenticationError(f"No rules apply to {name}, rules [{self._text}]")

    def __repr__(self) -> str:
        return f"<Mapper {self._text}>"
