"""What is put behind aiokafka's own `tests/conftest.py`: a broker that runs already, in place of a container.

Its fixtures start Kafka in Docker, with certificates, Kerberos and a shell inside. The tests that need those
fail here, and so are on no list; what they share with the others is None.
"""

import os

import pytest

HOST, PORT = os.environ["SUITE_BOOTSTRAP"].rsplit(":", 1)
VERSION = "3.9.0"


class RunningServer:
    """As `KafkaServer` of the suite, with one listener."""

    host = HOST
    port = int(PORT)
    ssl_port = sasl_plain_port = sasl_ssl_port = 1
    hosts = (f"{HOST}:{PORT}",)


@pytest.fixture(scope="session")
def kafka_image():
    return f"kafka:{VERSION}"


@pytest.fixture(scope="session")
def kafka_server():
    return RunningServer()


@pytest.fixture(scope="class")
def setup_test_class(request, loop, kafka_server):
    values = {f"kafka_{name}": getattr(kafka_server, name) for name in ("host", "port", "ssl_port")}
    nothing = dict.fromkeys(("ssl_folder", "acl_manager", "kerberos_utils", "kafka_config"))
    known = {"loop": loop, "hosts": list(kafka_server.hosts), "kafka_version": VERSION}
    for name, value in {**values, **nothing, **known}.items():
        setattr(request.cls, name, value)
