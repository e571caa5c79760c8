"""Principals of Kerberos and the short names that they become (``KerberosName``, ``KerberosShortNamer``).

    principal => SERVICE ["/" HOST] ["@" REALM]
    rule      => "DEFAULT"
               | "RULE:[" COUNT ":" FORMAT "]" ["(" MATCH ")"] ["s/" FROM "/" TO "/" ["g"]] ["/L" | "/U"]

A rule is for names of COUNT components. FORMAT makes a text of them ($0 is the realm), MATCH says whether the
rule is for that, and the substitution makes the name. The first rule that has a name for a principal counts.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from barnabas.core.errors import ConfigError
from barnabas.network.sasl.mechanism import SaslAuthenticationError

KEY: Final = "sasl.kerberos.principal.to.local.rules"

_PRINCIPAL: Final = re.compile(r"([^/@]*)(?:/([^/@]*))?@([^/@]*)")
_RULE: Final = re.compile(
    r"(?P<default>DEFAULT)|"
    r"RULE:\[(?P<count>\d+):(?P<format>[^\]]*)\](?:\((?P<match>[^)]*)\))?"
    r"(?:s/(?P<from>[^/]*)/(?P<to>[^/]*)/(?P<global>g)?)?/?(?P<case>[LU])?"
)
_PARAMETER: Final = re.compile(r"\$(\d+)")
_NOT_SIMPLE: Final = re.compile("[/@]")


@dataclass(frozen=True, slots=True)
class LocalRule:
    """One rule; `apply` has a name for a principal, or None."""

    count: int
    """How many components a name has that this rule is for; 0 for DEFAULT."""
    format: str = ""
    match: re.Pattern[str] | None = None
    pattern: re.Pattern[str] | None = None
    replacement: str = ""
    everywhere: bool = False
    case: str = ""

    def apply(self, realm: str, components: Sequence[str], default_realm: str) -> str | None:
        if not self.count:
            return components[0] if realm == default_realm else None
        if len(components) != self.count:
            return None
        values = [realm, *components]
        text = _PARAMETER.sub(lambda ref: values[int(ref[1])], self.format)
        if self.match is not None and not self.match.fullmatch(text):
            return None
        if self.pattern is not None:
            # The replacement may name groups, as $1.
            text = self.pattern.sub(
                lambda found: _PARAMETER.sub(lambda ref: found[int(ref[1])] or "", self.replacement),
                text,
                count=0 if self.everywhere else 1,
            )
        return {"L": text.lower(), "U": text.upper()}.get(self.case, text)


class ShortNamer:
    """``sasl.kerberos.principal.to.local.rules``."""

    def __init__(self, rules: Sequence[str], default_realm: str) -> None:
        """Raises ConfigError for rules that are none."""
        self._texts = list(rules)
        self._rules = [_rule(each) for each in rules]
        self._default_realm = default_realm

    def short_name(self, principal: str) -> str:
        """Raises SaslAuthenticationError where no rule has a name for the principal."""
        match = _PRINCIPAL.fullmatch(principal)
        if match is None:
            if "@" in principal:
                raise SaslAuthenticationError(f"Malformed Kerberos name: {principal}")
            return principal
        service, host, realm = match.groups()
        components = [service] if host is None else [service, host]
        for rule in self._rules:
            name = rule.apply(realm, components, self._default_realm)
            if name is not None:
                # A name that looks like a principal could be taken for another one.
                if _NOT_SIMPLE.search(name) or not name:
                    raise SaslAuthenticationError(f"Non-simple name {name} after the rules for {principal}")
                return name
        raise SaslAuthenticationError(f"No rules apply to {principal}, rules {self._texts}")

    def __repr__(self) -> str:
        return f"<ShortNamer {self._texts}>"


def _rule(text: str) -> LocalRule:
    match = _RULE.fullmatch(text)
    if match is None:
        raise _refused(text, "it is no rule")
    if match["default"]:
        return LocalRule(0)
    count = int(match["count"])
    try:
        wanted = None if match["match"] is None else re.compile(match["match"])
        pattern = None if match["from"] is None else re.compile(match["from"])
    except re.error as error:
        raise _refused(text, str(error)) from None
    if not 1 <= count <= 2 or any(int(each) > count for each in _PARAMETER.findall(match["format"])):
        raise _refused(text, "a principal has one or two components")
    groups = pattern.groups if pattern is not None else 0
    if any(int(each) > groups for each in _PARAMETER.findall(match["to"] or "")):
        raise _refused(text, "the replacement names a group that is not there")
    return LocalRule(
        count, match["format"], wanted, pattern, match["to"] or "", bool(match["global"]), match["case"] or ""
    )


def _refused(rule: str, why: str) -> ConfigError:
    return ConfigError(f"Invalid value {rule[:200]} for configuration {KEY}: Invalid rule: {why}")
