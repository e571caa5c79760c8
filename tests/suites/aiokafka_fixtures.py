"""What is put behind aiokafka's own `tests/conftest.py`: a broker that runs already, in place of a container.

Its fixtures start Kafka in Docker, with certificates, Kerberos and a shell inside. Here certificates lie in a
folder, and the tools that change access rules and users are ours. The tests that need Kerberos fail, and so
are on no list.
"""

import os
import pathlib
import shlex
import subprocess

import pytest

HOST, PORT = os.environ["SUITE_BOOTSTRAP"].rsplit(":", 1)
VERSION = "3.9.0"


class RunningServer:
    """As `KafkaServer` of the suite."""

    host = HOST
    port = int(PORT)
    ssl_port, sasl_plain_port, sasl_ssl_port = (
        int(os.environ[f"SUITE_{name}_PORT"] or 1) for name in ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
    )
    hosts = (f"{HOST}:{PORT}",)


def barnabas(*words):
    """Runs a tool of ours as a user of the listener in plaintext; what it prints."""
    command = [os.environ["SUITE_PYTHON"], "-m", "barnabas", *words, "--bootstrap-server", f"{HOST}:{PORT}"]
    return subprocess.run(command, check=True, capture_output=True, timeout=60).stdout


class AclTool(ACLManager):  # noqa: F821 - conftest.py, behind which this stands, imports it
    """Calls `barnabas acls` where the suite calls kafka-acls.sh in its container."""

    def _exec(self, *options):
        return barnabas("acls", "--force", *(word for each in options for word in shlex.split(each)))


class ConfigTool(KafkaConfig):  # noqa: F821
    """The same for kafka-configs.sh."""

    def _exec(self, *options):
        return barnabas("configs", *options)


@pytest.fixture(scope="session")
def ssl_folder():
    return pathlib.Path(os.environ["SUITE_CERTIFICATES"])


@pytest.fixture(scope="class")
def acl_manager():
    return AclTool(None, "")


@pytest.fixture(scope="class")
def kafka_config():
    return ConfigTool(None, "")


@pytest.fixture(scope="session")
def kafka_image():
    return f"kafka:{VERSION}"


@pytest.fixture(scope="session")
def kafka_server():
    return RunningServer()


@pytest.fixture(scope="class")
def setup_test_class(request, loop, kafka_server, ssl_folder, acl_manager, kafka_config):
    ports = ("port", "ssl_port", "sasl_plain_port", "sasl_ssl_port")
    values = {f"kafka_{name}": getattr(kafka_server, name) for name in ("host", *ports)}
    tools = {"acl_manager": acl_manager, "kafka_config": kafka_config, "kerberos_utils": None}
    known = {"loop": loop, "hosts": list(kafka_server.hosts), "kafka_version": VERSION}
    for name, value in {**values, **tools, **known, "ssl_folder": ssl_folder}.items():
        setattr(request.cls, name, value)
