"""What is put behind kafka-python's own `test/integration/conftest.py`: for its tests of TLS and SASL a
broker that runs already, in place of one that they start with the programs of a distribution of Kafka.
"""

import os
from types import SimpleNamespace

from kafka import KafkaAdminClient
from test.integration.fixtures import KafkaFixture


class RunningBroker:
    """As the suite's `KafkaFixture`, at one listener of the broker."""

    broker_user, broker_password = "alice", "alice-secret"
    partitions, replicas = 4, 1
    zookeeper = None
    child = SimpleNamespace(dump_logs=lambda: None)
    ssl_dir = os.environ["SUITE_CERTIFICATES"]

    def __init__(self, transport="PLAINTEXT", sasl_mechanism=None):
        self.transport, self.sasl_mechanism = transport, sasl_mechanism
        self.port = int(os.environ[f"SUITE_{transport}_PORT"])

    def start(self):
        """It runs."""

    close = start

    def get_topic_names(self):
        """As the suite asks kafka-topics.sh for them."""
        with KafkaAdminClient(**self._enrich_client_params({})) as admin:
            return admin.list_topics()

    def _enrich_client_params(self, params, **defaults):
        own = {"bootstrap_servers": f"localhost:{self.port}", "security_protocol": self.transport}
        if self.sasl_mechanism:
            own |= {
                "sasl_mechanism": self.sasl_mechanism,
                "sasl_plain_username": self.broker_user,
                "sasl_plain_password": self.broker_password,
            }
        if self.transport.endswith("SSL"):
            own |= {"ssl_cafile": f"{self.ssl_dir}/ca-cert", "ssl_check_hostname": False}
        return {**own, **defaults, **params}


def _running(_broker_id, transport="PLAINTEXT", sasl_mechanism=None, **_given):
    return RunningBroker(transport, sasl_mechanism)


KafkaFixture.instance = _running
