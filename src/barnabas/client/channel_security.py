"""How a client's connections are protected, from its options (``ChannelBuilders.clientChannelBuilder``)."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from barnabas.core.config import ConfigKey, ConfigTable, ConfigType
from barnabas.core.errors import ConfigError
from barnabas.core.oauthbearer_config import LOGIN_KEYS
from barnabas.network.sasl.client import SaslLogin
from barnabas.network.sasl.logins import client_login, line_of_file

if TYPE_CHECKING:
    import ssl

_STRING: Final = ConfigType.STRING
_PASSWORD: Final = ConfigType.PASSWORD
PLAINTEXT: Final = "PLAINTEXT"
PROTOCOLS: Final = (PLAINTEXT, "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""What this client speaks."""

_SECURITY: Final = ("security.", "sasl.", "ssl.")

SECURITY_KEYS: Final = (
    ConfigKey(
        "security.protocol",
        _STRING,
        PLAINTEXT,
        f"How to talk to brokers: {', '.join(PROTOCOLS)}.",
        lambda value: (
            None if value.upper() in PROTOCOLS else f"String must be one of: {', '.join(PROTOCOLS)}"
        ),
    ),
    ConfigKey(
        "sasl.mechanism",
        _STRING,
        "GSSAPI",
        "How to log in: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or GSSAPI.",
    ),
    ConfigKey(
        "sasl.jaas.config",
        _PASSWORD,
        None,
        "The login module with its options, as Java's clients have it.",
    ),
    *LOGIN_KEYS,
    ConfigKey("sasl.kerberos.service.name", _STRING, None, "The service that brokers are to Kerberos."),
    ConfigKey("ssl.truststore.location", _STRING, None, "Certificates that are trusted: PEM, PKCS12 or JKS."),
    ConfigKey("ssl.truststore.password", _PASSWORD, None, "The password of that file."),
    ConfigKey("ssl.truststore.type", _STRING, "JKS", "PEM, PKCS12 or JKS; it is seen where it is not said."),
    ConfigKey("ssl.truststore.certificates", _PASSWORD, None, "The same as a text in PEM."),
    ConfigKey(
        "ssl.keystore.location", _STRING, None, "A private key with its certificate: PEM, PKCS12 or JKS."
    ),
    ConfigKey("ssl.keystore.password", _PASSWORD, None, "The password of that file."),
    ConfigKey("ssl.keystore.type", _STRING, "JKS", "As ssl.truststore.type."),
    ConfigKey("ssl.keystore.key", _PASSWORD, None, "The private key as a text in PEM."),
    ConfigKey("ssl.keystore.certificate.chain", _PASSWORD, None, "Its certificate as a text in PEM."),
    ConfigKey("ssl.key.password", _PASSWORD, None, "The password of the private key, where it has one."),
    ConfigKey(
        "ssl.endpoint.identification.algorithm",
        _STRING,
        "https",
        "https compares the broker's name with its certificate; empty does not.",
    ),
    ConfigKey("ssl.cipher.suites", ConfigType.LIST, None, "The suites of TLS by Java's names."),
    ConfigKey(
        "ssl.enabled.protocols", ConfigType.LIST, ["TLSv1.2", "TLSv1.3"], "The versions of TLS to speak."
    ),
)
_NAMES: Final = frozenset(key.name for key in SECURITY_KEYS)
_CERTIFICATES: Final = frozenset(("ssl.truststore.certificates", "ssl.keystore.certificate.chain"))
"""Kafka takes these for passwords too, as they may be long; but everybody sees them in a handshake."""
_PEM: Final = "with ssl_truststore_type='PEM'"
_INSTEAD: Final = {
    "sasl.mechanisms": "write sasl_mechanism=...",
    "sasl.oauth.token.provider": "write sasl_login_callback_handler_class=...",
    **dict.fromkeys(
        ("sasl.username", "sasl.password", "sasl.plain.username", "sasl.plain.password"),
        "write sasl_jaas_config=..., as Java's clients have it",
    ),
    **dict.fromkeys(("ssl.ca.location", "ssl.cafile"), f"write ssl_truststore_location=... {_PEM}"),
    **dict.fromkeys(
        ("ssl.certfile", "ssl.certificate.location", "ssl.key.location", "ssl.keyfile"),
        "write ssl_keystore_location=..., a file with key and certificate, with ssl_keystore_type='PEM'",
    ),
    "ssl.check.hostname": "write ssl_endpoint_identification_algorithm=''",
    "ssl.context": f"write ssl_truststore_location=... {_PEM}",
    "ssl.password": "write ssl_key_password=...",
}
"""What to write for options that other clients for Python have."""
_SECRET: Final = frozenset(key.name for key in SECURITY_KEYS if key.type is _PASSWORD) - _CERTIFICATES

_IN_FILE: Final = "file:"
_SECRET_BYTES_MAX: Final = 65_536


def is_secret(name: str) -> bool:
    """Whether an option has a password or a private key."""
    return name in _SECRET


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
        if name in _INSTEAD:
            return f"Unknown configuration {name}: {_INSTEAD[name]}"
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
    mechanism, line = config["sasl.mechanism"], config["sasl.jaas.config"]
    # Kafka's clients read their section where they are told nothing themselves.
    return client_login(mechanism, line or line_of_file(mechanism, "KafkaClient"), config)


def tls_of(config: Mapping[str, Any]) -> "ssl.SSLContext | None":
    """How a client with these options encrypts; None where it does not. Raises ConfigError."""
    if not config["security.protocol"].upper().endswith("SSL"):
        return None
    # Only clients of TLS load it.
    from barnabas.network.tls_context import client_context  # noqa: PLC0415

    return client_context(config)


def is_in_file(value: str) -> bool:
    """Whether the value of a secret names the file that has it."""
    return value.startswith(_IN_FILE)


def _with_secrets(options: Mapping[str, str]) -> dict[str, str]:
    """The options with what their files hold in place of ``file:PATH``, for those that are secrets. The last
    line of a file may have an end. Raises ConfigError.
    """
    found = dict(options)
    for name, value in options.items():
        if is_secret(name) and is_in_file(value):
            path = Path(value.removeprefix(_IN_FILE).removeprefix("//"))
            try:
                with path.open("rb") as file:
                    data = file.read(_SECRET_BYTES_MAX + 1)
                if len(data) > _SECRET_BYTES_MAX:
                    raise ConfigError(f"{name}: {path} is larger than {_SECRET_BYTES_MAX} bytes")
                found[name] = data.decode().removesuffix("\n").removesuffix("\r")
            except OSError as error:
                raise ConfigError(
                    f"Invalid value {value} for configuration {name}: {error.strerror}"
                ) from None
            except UnicodeDecodeError:
                raise ConfigError(f"{name}: {path} is not a text in UTF-8") from None
    return found


def with_stores(options: Mapping[str, str]) -> dict[str, str]:
    """The options (with Kafka's keys) with the keys, certificates and passwords themselves in place of the
    files that have them, for a client on a machine where those files are not. Raises ConfigError, also where
    they are of no use, or where the log-in cannot be one.
    """
    protocol = options.get("security.protocol", PLAINTEXT).strip().upper()
    if protocol == PLAINTEXT:
        return dict(options)
    options = _with_secrets(options)
    config = ConfigTable(SECURITY_KEYS).parse({name: options[name] for name in options if name in _NAMES})
    login_of(config)
    if tls_of(config) is None:
        return dict(options)
    from barnabas.network.tls_stores import key_pair, trusted_certificates  # noqa: PLC0415

    stores = ("ssl.keystore.", "ssl.truststore.", "ssl.key.password")
    found = {name: value for name, value in options.items() if not name.startswith(stores)}
    trusted, pair = trusted_certificates(config), key_pair(config)
    if trusted is not None:
        found |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": trusted}
    if pair is not None:
        found |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": pair.key.decode(),
            "ssl.keystore.certificate.chain": pair.chain.decode(),
        }
        if pair.password is not None:
            found["ssl.key.password"] = pair.password
    return found
