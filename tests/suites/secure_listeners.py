"""Listeners with TLS and log-ins for suites that ask for them: ports, certificates, users, access rules.

Who comes in plaintext is a super user, as the suites' own brokers have it for the tools that they call.
"""

import itertools
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "jvm")]

from kafka_harness import free_port  # noqa: E402 - it stands in the folder above

from tls_certificates import PASSWORD, Authority  # noqa: E402

KEY_PASSWORD = "abcdefgh"
"""Of the key that aiokafka's tests show."""
SCRAMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
USERS = {"test": "test", "alice": "alice-secret", "sasl_user": "sasl_user"}
"""Of aiokafka's tests, of kafka-python's, and of confluent-kafka-python's."""
LISTENERS = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
SCOPE = "requiredScope"
"""Of tokens that nobody has signed, as librdkafka's tests of SASL ask for them."""


class SecureListeners:
    """What a broker is configured with, and what the suite is told."""

    def __init__(self, folder: Path) -> None:
        self.ports = {name: free_port() for name in LISTENERS}
        """By the names of listeners."""
        self._folder = folder / "certificates"
        self._folder.mkdir()
        authority = Authority()
        for name in ("ca.crt", "ca-cert"):
            authority.pem(self._folder / name)
        client = authority.sign("client")
        (self._folder / "client.crt").write_text(client.chain_pem)
        (self._folder / "client.key").write_text(client.key_pem(KEY_PASSWORD))
        authority.sign("127.0.0.1", "localhost").p12(self._folder / "broker.p12")
        authority.p12(self._folder / "trust.p12")

    def settings(self, port: int) -> Mapping[str, object]:
        """Those of a broker whose listener in plaintext has this port."""
        users = " ".join(f'user_{name}="{password}"' for name, password in USERS.items())
        modules = "org.apache.kafka.common.security"
        ports = {"PLAINTEXT": port, **self.ports}
        lines = {"plain": f"{modules}.plain.PlainLoginModule required {users};"}
        lines |= {each.lower(): f"{modules}.scram.ScramLoginModule required;" for each in SCRAMS}
        bearer = f"{modules}.oauthbearer.OAuthBearerLoginModule required"
        # A JVM's listener makes a token of its own when it starts.
        options = f'unsecuredLoginStringClaim_sub="broker" unsecuredValidatorRequiredScope="{SCOPE}"'
        lines["oauthbearer"] = f"{bearer} {options};"
        return {
            "listeners": ",".join(f"{name}://127.0.0.1:{each}" for name, each in ports.items()),
            "sasl.enabled.mechanisms": ",".join(("PLAIN", *SCRAMS, "OAUTHBEARER")),
            **{
                f"listener.name.{listener}.{mechanism}.sasl.jaas.config": line
                for listener in ("sasl_plaintext", "sasl_ssl")
                for mechanism, line in lines.items()
            },
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": self._folder / "broker.p12",
            "ssl.keystore.password": PASSWORD,
            "ssl.truststore.type": "PKCS12",
            "ssl.truststore.location": self._folder / "trust.p12",
            "ssl.truststore.password": PASSWORD,
            "ssl.client.auth": "requested",
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "allow.everyone.if.no.acl.found": "true",
            "super.users": "User:ANONYMOUS;User:admin",
        }

    def add_users(self, bootstrap: str) -> None:
        """Gives the users passwords of SCRAM."""
        for (name, password), mechanism in itertools.product(USERS.items(), SCRAMS):
            command = [sys.executable, "-m", "barnabas", "configs", "--bootstrap-server", bootstrap]
            command += ["--alter", "--entity-type", "users", "--entity-name", name]
            # Kafka 4 takes one of a user in each request.
            command += ["--add-config", f"{mechanism}=[password={password}]"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise RuntimeError(f"{name} got no password: {done.stdout}{done.stderr}")

    def given(self) -> dict[str, str]:
        """What stands for these listeners in a suite's environment."""
        ports = {name.lower(): str(port) for name, port in self.ports.items()}
        return {**ports, "certificates": str(self._folder), "python": sys.executable}
