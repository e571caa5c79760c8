"""What is put behind confluent-kafka-python's own `tests/integration/conftest.py`: its clients come by
SASL_SSL to a broker that runs already, in place of one that trivup starts.
"""

import os

import pytest
from tests.integration.cluster_fixture import ByoFixture

USERS = {"kafka_cluster": ("test", "test"), "sasl_cluster": ("sasl_user", "sasl_user")}
"""Names and passwords; the second is that of the tests of access rules."""


def _cluster(name, mechanism):
    user, password = USERS[name]
    given = {
        "bootstrap.servers": f"127.0.0.1:{os.environ['SUITE_SASL_SSL_PORT']}",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
        "ssl.ca.location": f"{os.environ['SUITE_CERTIFICATES']}/ca.crt",
    }
    return ByoFixture(given)


@pytest.fixture(scope="session")
def kafka_cluster():
    cluster = _cluster("kafka_cluster", "SCRAM-SHA-256")
    yield cluster
    cluster.stop()


@pytest.fixture(scope="session")
def sasl_cluster(request):
    cluster = _cluster("sasl_cluster", "PLAIN")
    yield cluster
    cluster.stop()
