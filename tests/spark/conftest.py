"""One Spark session and one broker for all tests of this folder that need them."""

import sys

import pytest

import java_options
from barnabas.spark.java import JavaNotFoundError, java_home

_SMALL = {
    "spark.driver.memory": "512m",
    "spark.sql.shuffle.partitions": 1,
    "spark.driver.extraJavaOptions": java_options.QUICK,
    # How long the JVM and a worker wait until the other one is on their socket. 15 s are not enough on a
    # machine that runs several test sessions. Drivers and workers read the same setting
    # (SPARK_AUTH_SOCKET_TIMEOUT).
    "spark.python.authenticate.socketTimeout": "120s",
}


@pytest.fixture(scope="session")
def spark():
    """A session as users get it, small."""
    from barnabas.spark import sessions

    try:
        java_home()
    except JavaNotFoundError as error:
        pytest.skip(str(error))
    session = sessions.make("tests", master="local[2]", config=_SMALL)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def broker_folder(tmp_path_factory):
    """The log directory of `broker`."""
    return tmp_path_factory.mktemp("broker") / "broker"


@pytest.fixture(scope="session")
def broker(broker_folder):
    """The address of a broker in a child process."""
    from barnabas.spark.demo.broker import DemoBroker

    running = DemoBroker(broker_folder.parent)
    yield running.address
    running.stop()


@pytest.fixture(autouse=True)
def _close_catalogs(monkeypatch):
    """Closes the catalogs that a test opens itself: Python 3.13 warns of connections that nobody closed."""
    if (module := sys.modules.get("pyiceberg.catalog")) is None:
        yield
        return
    opened = []
    load = module.load_sql

    def remember(name, properties):
        opened.append(load(name, properties))
        return opened[-1]

    monkeypatch.setitem(module.AVAILABLE_CATALOGS, module.CatalogType.SQL, remember)
    yield
    for catalog in opened:
        catalog.close()
