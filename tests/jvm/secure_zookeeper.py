"""A ZooKeeper server that wants to know who connects: by a password, by a certificate, or both."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import kafka_harness
from kafka_harness import Server
from kazoo.client import KazooClient

from barnabas.cluster.store.zookeeper_client import make_client
from barnabas.cluster.store.zookeeper_security import zookeeper_security
from barnabas.core.broker_config import broker_config
from barnabas.core.login_file import java_properties
from serving import free_port
from tls_certificates import PASSWORD, Authority

USER: Final = "kafka"
DIGEST: Final = "org.apache.zookeeper.server.auth.DigestLoginModule"
BOTH: Final = ("sasl", "tls")


def login_file(path: Path, password: str = "kafka-secret", user: str = USER) -> str:
    """The file of JAAS of a broker, as a word of KAFKA_OPTS."""
    path.write_text(
        f"/* of brokers */\nClient {{\n  {DIGEST} required\n  username={user} // one for all of them\n"
        f'  password="{password}";\n}};\n'
    )
    path.chmod(0o600)
    return f"-Djava.security.auth.login.config={path}"


class SecureZookeeper:
    """One server with two ports, that of TLS asks for a certificate. `restart` keeps data and ports."""

    def __init__(self, folder: Path, ways: tuple[str, ...] = BOTH) -> None:
        self.ways = ways
        self._folder = folder
        self._authority = Authority("zookeepers")
        self._secure_port = free_port()
        # A session has to last two ticks.
        self._settings: dict[str, object] = {"tickTime": 1000}
        self._options: list[str] = []
        self.login = login_file(folder / "client.jaas")
        if "sasl" in ways:
            jaas = folder / "server.jaas"
            jaas.write_text(f'Server {{ {DIGEST} required user_{USER}="kafka-secret"; }};\n')
            self._settings["authProvider.sasl"] = (
                "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
            )
            self._options.append(f"-Djava.security.auth.login.config={jaas}")
        if "tls" in ways:
            self.certificates()
            auth = "org.apache.zookeeper.server.auth.X509AuthenticationProvider"
            self._settings |= {
                "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
                "secureClientPort": self._secure_port,
                "authProvider.x509": auth,
                "ssl.keyStore.location": folder / "server.p12",
                "ssl.keyStore.password": PASSWORD,
                "ssl.trustStore.location": folder / "trust.p12",
                "ssl.trustStore.password": PASSWORD,
                "ssl.clientAuth": "need",
            }
        self.server = self._start()

    def _start(self) -> Server:
        server = kafka_harness.start_zookeeper(self._folder, self._settings, self._options)
        self._settings["clientPort"] = server.port
        return kafka_harness.wait_until_serving(server)

    def restart(self) -> None:
        self.server.kill()
        self.server = self._start()

    def certificates(self) -> None:
        """Those of the server and of brokers, which all have one name."""
        self._authority.p12(self._folder / "trust.p12")
        self._authority.sign("127.0.0.1").p12(self._folder / "server.p12")
        self._authority.sign("broker").p12(self._folder / "client.p12")

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._secure_port if 'tls' in self.ways else self.server.port}"

    @property
    def settings(self) -> dict[str, object]:
        """What a broker's configuration has of it, without the address."""
        if "tls" not in self.ways:
            return {}
        return {
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
            "zookeeper.ssl.keystore.location": self._folder / "client.p12",
            "zookeeper.ssl.keystore.password": PASSWORD,
            "zookeeper.ssl.truststore.location": self._folder / "trust.p12",
            "zookeeper.ssl.truststore.password": PASSWORD,
        }

    @property
    def kafka_opts(self) -> str:
        """KAFKA_OPTS of a broker."""
        return self.login if "sasl" in self.ways else ""

    def client(self, chroot: str = "") -> KazooClient:
        """One that logs in as brokers do; not started."""
        config = broker_config({key: str(value) for key, value in self.settings.items()})
        security = zookeeper_security(config, java_properties(self.kafka_opts))
        return make_client(self.address + chroot, 10_000, security)


def acls(client: KazooClient, path: str = "/") -> dict[str, list[tuple[int, str, str]]]:
    """Who may do what with each znode below a path."""
    found = {path: [(acl.perms, acl.id.scheme, acl.id.id) for acl in client.get_acls(path)[0]]}
    for child in client.get_children(path):
        found |= acls(client, f"{path.rstrip('/')}/{child}")
    return found


def differences(one: Mapping[str, object], other: Mapping[str, object]) -> dict[str, object]:
    """What two have not in common, as (one, other)."""
    paths = one.keys() | other.keys()
    return {path: (one.get(path), other.get(path)) for path in paths if one.get(path) != other.get(path)}
