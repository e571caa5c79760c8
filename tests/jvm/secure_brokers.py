"""`SecureBrokers`: three brokers that reach each other by SASL_SSL, in a cluster with access rules.

Brokers are a user with a password of SCRAM, in the cluster's own ZooKeeper, and show each other certificates.
The clients of the load come as nobody, and may do what rules say: all but what is for brokers. A third
listener is for users who log in over TLS.
"""

import hashlib
import socket
import ssl
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from kafka_tools import ours as our_tool
from three_brokers import ThreeBrokers

from serving import free_port
from tls_certificates import PASSWORD, Authority
from waiting import until

SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
BROKER: Final = f'{SCRAM} required username="broker" password="inner-secret";'
HEARD_S: Final = 20
_OF_CLIENTS: Final = ("Create", "Describe", "Alter", "AlterConfigs", "DescribeConfigs", "IdempotentWrite")


class SecureBrokers(ThreeBrokers):
    """The brokers 1, 2 and 3 on a ZooKeeper."""

    def __init__(self, folder: Path, kinds, connect: str, settings=None, store=None) -> None:
        super().__init__(folder, kinds, connect, settings, store)
        self._inner = {number: free_port() for number in self.kinds}
        self._outer = {number: free_port() for number in self.kinds}
        self._authority = Authority("brokers")
        self._trusted = folder / "trust.pem"
        self._authority.pem(self._trusted)
        self._authority.p12(folder / "trust.p12")
        for number in self.kinds:
            self._sign(number)

    def _sign(self, number: int) -> None:
        self._authority.sign("127.0.0.1", "localhost").p12(self._key(number))

    def _key(self, number: int) -> Path:
        return self.folder / f"broker-{number}.p12"

    def settings_of(self, number: int):
        of_inner = "listener.name.inner"
        ports = {"CLIENTS": self.ports[number], "INNER": self._inner[number], "OUTER": self._outer[number]}
        return super().settings_of(number) | {
            "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
            "listener.security.protocol.map": "CLIENTS:PLAINTEXT,INNER:SASL_SSL,OUTER:SASL_SSL",
            "inter.broker.listener.name": "INNER",
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
            f"{of_inner}.scram-sha-512.sasl.jaas.config": BROKER,
            "listener.name.outer.scram-sha-512.sasl.jaas.config": f"{SCRAM} required;",
            f"{of_inner}.ssl.keystore.location": self._key(number),
            f"{of_inner}.ssl.keystore.password": PASSWORD,
            f"{of_inner}.ssl.client.auth": "required",
            "ssl.keystore.location": self._key(number),
            "ssl.keystore.password": PASSWORD,
            "ssl.truststore.location": self.folder / "trust.p12",
            "ssl.truststore.password": PASSWORD,
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "super.users": "User:broker",
        }

    def start_all(self, first: int = 1) -> None:
        """The user of brokers and the rules of clients are there before the first broker."""
        password = "SCRAM-SHA-512=[iterations=4096,password=inner-secret]"
        user = ("--entity-type", "users", "--entity-name", "broker", "--zookeeper", self.connect)
        self._ours("configs", "--alter", "--add-config", password, *user)
        where = ("--authorizer-properties", f"zookeeper.connect={self.connect}")
        anyone = ("--add", "--allow-principal", "User:ANONYMOUS", "--operation")
        names = ("--topic", "*", "--group", "*", "--transactional-id", "*")
        self._ours("acls", *where, *anyone, "All", *names)
        for operation in _OF_CLIENTS:
            self._ours("acls", *where, *anyone, operation, "--cluster")
        super().start_all(first)

    def _ours(self, *words: str) -> None:
        done = our_tool(*words)
        assert done.code == 0, f"{words}: {done.out} {done.err}"

    def ours(self, name: str, *words: str) -> None:
        """Runs a tool of ours against the cluster."""
        self._ours(name, "--bootstrap-server", self.bootstrap, *words)

    # ------------------------------------------------------------------------------------ what changes

    def shown(self, number: int) -> str:
        """The certificate that a broker shows to the others, as a hash."""
        mine = self.folder / "looking.pem"
        self._authority.sign("looking").pem(mine)
        context = ssl.create_default_context(cafile=self._trusted)
        context.load_cert_chain(mine)
        with (
            socket.create_connection(("127.0.0.1", self._inner[number]), 10) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as encrypted,
        ):
            return hashlib.sha256(encrypted.getpeercert(binary_form=True)).hexdigest()

    def renew(self, number: int) -> None:
        """Gives a broker that runs another certificate, by Kafka's tool."""
        before = self.shown(number)
        self._sign(number)
        key = f"listener.name.inner.ssl.keystore.location={self._key(number)}"
        which = ("--entity-type", "brokers", "--entity-name", str(number))
        self.tool("kafka-configs", "--alter", *which, "--add-config", key)
        until(lambda: self.shown(number) != before, f"{self.name(number)} shows another certificate", HEARD_S)
        self.tell(f"{self.name(number)} shows another certificate")

    # --------------------------------------------------------------------------------------- who may

    def add_user(self, name: str, password: str) -> None:
        """Makes a user by Kafka's tool."""
        wanted = f"SCRAM-SHA-512=[iterations=4096,password={password}]"
        user = ("--entity-type", "users", "--entity-name", name)
        self.tool("kafka-configs", "--alter", "--add-config", wanted, *user)

    def until_everywhere(self, user: str, password: str, topic: str, *, allowed: bool) -> None:
        """Waits until each broker tells the user of a topic, or none does."""

        def told(number: int) -> bool:
            options = {
                "bootstrap.servers": f"127.0.0.1:{self._outer[number]}",
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.username": user,
                "sasl.password": password,
                "ssl.ca.location": str(self._trusted),
                "log_level": 0,
            }
            try:
                error = AdminClient(options).list_topics(topic, timeout=10).topics[topic].error
            except KafkaException:
                return not allowed
            refused = error is not None and error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
            return not refused

        word = "may" if allowed else "may not"
        for number in self.running:
            until(
                lambda each=number: told(each) is allowed,
                f"{user} {word} describe {topic} at {self.name(number)}",
                HEARD_S,
            )
        self.tell(f"{user} {word} describe {topic}, say all brokers")
