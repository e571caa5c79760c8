"""How a client's connections are protected, from its options (``ChannelBuilders.clientChannelBuilder``)."""

from collections.abc import Mapping
from typing import Any, Final

from barnabas.core.config import ConfigKey, ConfigType
from barnabas.network.sasl.client import SaslLogin
from barnabas.network.sasl.logins import client_login

PLAINTEXT: Final = "PLAINTEXT"
PROTOCOLS: Final = (PLAINTEXT, "SASL_PLAINTEXT")
"""What this client speaks."""

_SECURITY: Final = ("security.", "sasl.", "ssl.")

SECURITY_KEYS: Final = (
    ConfigKey(
        "security.protocol",
        ConfigType.STRING,
        PLAINTEXT,
        f"How to talk to brokers: {', '.join(PROTOCOLS)}.",
        lambda value: (
            None if value.upper() in PROTOCOLS else f"String must be one of: {', '.join(PROTOCOLS)}"
        ),
    ),
    ConfigKey(
        "sasl.mechanism",
        ConfigType.STRING,
        "GSSAPI",
        "How to log in: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.",
    ),
    ConfigKey(
        "sasl.jaas.config",
        ConfigType.PASSWORD,
        None,
        "The login module with username and password, as Java's clients have it.",
    ),
)
_NAMES: Final = frozenset(key.name for key in SECURITY_KEYS)


def security_asked_for(options: Mapping[str, Any]) -> str | None:
    """One line on the first of these options (with Kafka's keys) that asks for security which its user would
    not get; None when there is none.

    Java's clients pass over ``ssl.*`` and ``sasl.*`` unless ``security.protocol`` calls for them. Here each
    of them stops the client: its user wants protection, and records would be sent without it.
    """
    protocol = str(options.get("security.protocol", PLAINTEXT)).strip().upper()
    # The values of all keys but the protocol may be passwords, and are not shown.
    shown = f"security.protocol={str(options.get('security.protocol'))[:40]!r}"
    if protocol not in PROTOCOLS:
        known = ", ".join(PROTOCOLS)
        return f"{shown} asks for security, which this client does not have yet: it speaks {known} only"
    for name in options:
        if not name.startswith(_SECURITY) or name == "security.protocol":
            continue
        if name not in _NAMES:
            return f"{name} asks for security, which this client does not have yet"
        if name.startswith("sasl.") and not protocol.startswith("SASL_"):
            return f"{name} asks for security, but security.protocol is {protocol}"
        if name.startswith("ssl.") and not protocol.endswith("SSL"):
            return f"{name} asks for security, but security.protocol is {protocol}"
    return None


def login_of(config: Mapping[str, Any]) -> SaslLogin | None:
    """How a client with these options logs in; None where it does not. Raises ConfigError."""
    if not config["security.protocol"].upper().startswith("SASL_"):
        return None
    return client_login(config["sasl.mechanism"], config["sasl.jaas.config"])
