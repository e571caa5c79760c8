"""How a client of ZooKeeper proves who it is, and encrypts: from Kafka's keys and, as with Kafka, from what
``KAFKA_OPTS`` gives a JVM.

    -Djava.security.auth.login.config=FILE   a file of JAAS; its section Client has username and password
    -Dzookeeper.sasl.client=false            no log-in, though there is a section
    -Dzookeeper.sasl.clientconfig=NAME       another section
    -Dzookeeper.client.secure=true, ...      ZooKeeper's own names of the keys ``zookeeper.ssl.*``, where a
                                             key is not set (`PROPERTIES`)

One environment thus serves brokers and tools of both kinds, and a password stands in no second place
(docs/decisions/0047). Certificates are read for each connection: a new one needs no restart.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from barnabas.core.config import Config, Source
from barnabas.core.errors import ConfigError
from barnabas.core.jaas import LoginModule
from barnabas.core.login_file import LOGIN_FILE, login_file, login_modules
from barnabas.network.sasl import digest_md5
from barnabas.network.sasl.mechanism import SaslClient

if TYPE_CHECKING:
    import ssl

SASL_CLIENT: Final = "zookeeper.sasl.client"
SECTION: Final = "zookeeper.sasl.clientconfig"
_SERVER_NAME: Final = ("zookeeper", "zk-sasl-md5")
"""Service and host of every server, whatever its address (``SecurityUtils.createSaslClient``)."""
_NETTY: Final = "org.apache.zookeeper.ClientCnxnSocketNetty"
_KERBEROS: Final = "com.sun.security.auth.module.Krb5LoginModule"

PROPERTIES: Final = {
    "zookeeper.ssl.client.enable": "zookeeper.client.secure",
    "zookeeper.clientCnxnSocket": "zookeeper.clientCnxnSocket",
    "zookeeper.ssl.keystore.location": "zookeeper.ssl.keyStore.location",
    "zookeeper.ssl.keystore.password": "zookeeper.ssl.keyStore.password",
    "zookeeper.ssl.keystore.type": "zookeeper.ssl.keyStore.type",
    "zookeeper.ssl.truststore.location": "zookeeper.ssl.trustStore.location",
    "zookeeper.ssl.truststore.password": "zookeeper.ssl.trustStore.password",
    "zookeeper.ssl.truststore.type": "zookeeper.ssl.trustStore.type",
    "zookeeper.ssl.protocol": "zookeeper.ssl.protocol",
    "zookeeper.ssl.enabled.protocols": "zookeeper.ssl.enabledProtocols",
    "zookeeper.ssl.cipher.suites": "zookeeper.ssl.ciphersuites",
    "zookeeper.ssl.endpoint.identification.algorithm": "zookeeper.ssl.hostnameVerification",
    "zookeeper.ssl.crl.enable": "zookeeper.ssl.crl",
    "zookeeper.ssl.ocsp.enable": "zookeeper.ssl.ocsp",
}
"""Kafka's keys, and the properties of Java that count where they are not set
(``ZkConfigs.ZK_SSL_CONFIG_TO_SYSTEM_PROPERTY_MAP``).
"""

_OWN_KEY: Final = re.compile(r"(?<![\w/.-])(?=ssl\.(?:keystore|truststore|enabled|cipher|endpoint)\b)")


@dataclass(frozen=True, slots=True)
class ZookeeperLogin:
    """A user of ZooKeeper's, by SASL with DIGEST-MD5."""

    user: str
    password: str = field(repr=False)

    def start(self) -> SaslClient:
        """Begins a log-in."""
        return digest_md5.DigestMd5Client(self.user, self.password, *_SERVER_NAME)


@dataclass(frozen=True, slots=True)
class ZookeeperSecurity:
    """What a connection to ZooKeeper is protected with. Nothing, without arguments."""

    login: ZookeeperLogin | None = None
    tls: "Callable[[], ssl.SSLContext] | None" = None
    """Reads the certificates. Raises ConfigError."""
    certificate: bool = False
    """Whether this client shows one."""
    set_acl: bool = False
    """zookeeper.set.acl"""

    @property
    def is_somebody(self) -> bool:
        """Whether ZooKeeper knows this client by a name or a certificate."""
        return self.login is not None or self.certificate

    def securing(self) -> "ZookeeperSecurity":
        """The same, for a client that sets ACLs. Raises ConfigError where it would be nobody."""
        if not self.is_somebody:
            raise ConfigError(
                "Invalid value true for configuration zookeeper.set.acl: this client is nobody to ZooKeeper. "
                f"Give it a section Client of a file of JAAS (KAFKA_OPTS=-D{LOGIN_FILE}=FILE), or a "
                "certificate (zookeeper.ssl.client.enable, zookeeper.clientCnxnSocket, "
                "zookeeper.ssl.keystore.location)"
            )
        return replace(self, set_acl=True)


def zookeeper_security(
    config: Config, properties: Mapping[str, str], *, tool: bool = False
) -> ZookeeperSecurity:
    """Of the keys of a broker and the properties of Java. A tool that is not told otherwise sets ACLs if it
    is somebody. Raises ConfigError, which shows no secret.
    """
    values = _values(config, properties)
    security = ZookeeperSecurity(_login(properties), *_tls(values))
    key = "zookeeper.set.acl"
    secure = security.is_somebody if tool and key not in config.explicit() else config[key]
    return security.securing() if secure else security


def _values(config: Config, properties: Mapping[str, str]) -> Config:
    """The keys, with the properties of Java in the places of those that were not set."""
    explicit = config.explicit()
    given = {
        key: properties[name]
        for key, name in PROPERTIES.items()
        if key not in explicit and properties.get(name)
    }
    algorithm = "zookeeper.ssl.endpoint.identification.algorithm"
    if algorithm in given:
        given[algorithm] = "HTTPS" if given[algorithm].lower() == "true" else ""
    return config.with_values(given, Source.STATIC_BROKER)


def _login(properties: Mapping[str, str]) -> ZookeeperLogin | None:
    section = properties.get(SECTION, "Client")
    modules = login_modules(properties, [section])
    if modules is None:
        return None
    where = f"Invalid value {login_file(properties)} for configuration {LOGIN_FILE}: section {section}"
    if properties.get(SASL_CLIENT, "true").lower() != "true":
        # Kafka ends too: who writes a section wants it.
        raise ConfigError(f"{where} is there, but {SASL_CLIENT} is false")
    return _user(modules, where)


def _user(modules: list[LoginModule], where: str) -> ZookeeperLogin:
    if len(modules) != 1 or modules[0].name != digest_md5.MODULE:
        kerberos = any(each.name == _KERBEROS for each in modules)
        hint = " (Kerberos is not available for ZooKeeper in this version)" if kerberos else ""
        raise ConfigError(f"{where} has one login module, {digest_md5.MODULE}{hint}")
    options = modules[0].options
    if not options.get("username") or "password" not in options:
        raise ConfigError(f"{where} has no username and password")
    return ZookeeperLogin(options["username"], options["password"])


def _tls(values: Config) -> "tuple[Callable[[], ssl.SSLContext] | None, bool]":
    """What makes a context, and whether it shows a certificate."""
    if not values["zookeeper.ssl.client.enable"]:
        return None, False
    if values["zookeeper.clientCnxnSocket"] != _NETTY:
        # With another one Kafka's client speaks no TLS.
        raise ConfigError(
            "Missing required configuration zookeeper.clientCnxnSocket: with zookeeper.ssl.client.enable it "
            f"is {_NETTY}"
        )
    own = "zookeeper.ssl."
    wanted: dict[str, Any] = {
        f"ssl.{name}": values[own + name]
        for name in (
            "cipher.suites",
            "endpoint.identification.algorithm",
            "keystore.location",
            "keystore.password",
            "truststore.location",
            "truststore.password",
        )
    }
    wanted |= {f"ssl.{name}": values[own + name] or "JKS" for name in ("keystore.type", "truststore.type")}
    wanted["ssl.enabled.protocols"] = values[own + "enabled.protocols"] or [values[own + "protocol"]]
    # ZooKeeper has one password for a key store and its key, and no keys as text.
    wanted["ssl.key.password"] = wanted["ssl.keystore.password"]
    wanted |= dict.fromkeys(
        ("ssl.keystore.key", "ssl.keystore.certificate.chain", "ssl.truststore.certificates")
    )
    make = partial(_context, wanted)
    make()  # What is wrong with it is said at the start.
    return make, wanted["ssl.keystore.location"] is not None


def _context(values: Mapping[str, Any]) -> "ssl.SSLContext":
    # Only clients of TLS load it.
    from barnabas.network.tls_context import client_context  # noqa: PLC0415

    try:
        return client_context(values)
    except ConfigError as error:
        raise ConfigError(_OWN_KEY.sub("zookeeper.", str(error))) from None
