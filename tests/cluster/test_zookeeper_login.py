"""Each connection to ZooKeeper logs in first; one that is refused says so, and is tried again."""

import ssl

import pytest
from zookeeper_played import PlayedZookeeper

from barnabas.cluster.store.contract import StoreUnusableError
from barnabas.cluster.store.zookeeper import ZookeeperStore
from barnabas.cluster.store.zookeeper_security import ZookeeperLogin, ZookeeperSecurity
from barnabas.core.errors import ConfigError
from barnabas.core.pending import Pending
from tls_certificates import Authority

EXISTS = 3


class Renewals:
    """Counts the sessions that came after another."""

    seen = 0

    def session_expired(self):
        return Pending.of(None)

    def session_renewed(self):
        self.seen += 1


@pytest.fixture
def played():
    servers = []

    def play(**how):
        servers.append(PlayedZookeeper(**how))
        return servers[-1]

    yield play
    for server in servers:
        server.close()


@pytest.fixture
def store(loop):
    stores = []

    def make(server, *, password="k-secret", tls=None, connection_timeout_ms=5000):
        login = None if password is None else ZookeeperLogin("kafka", password)
        stores.append(
            ZookeeperStore(
                server.address,
                loop.call_soon,
                session_timeout_ms=6000,
                connection_timeout_ms=connection_timeout_ms,
                security=ZookeeperSecurity(login, tls),
            )
        )
        return stores[-1]

    yield make
    for each in stores:
        loop.wait(each.close())


def test_each_connection_logs_in_before_anything_is_asked(loop, played, store):
    server = played()
    found = store(server)
    loop.wait(found.start())
    changed = []
    loop.wait(found.exists("/a", changed.append))
    server.cut()
    loop.until(lambda: len(server.asked) == 2 and EXISTS in server.asked[1])

    # The watch is left again on the second connection, by who had left it.
    assert server.asked == [["connect", "sasl", "sasl", EXISTS]] * 2
    assert server.users == ["kafka", "kafka"]


def test_the_session_behind_one_that_has_ended_logs_in_too(loop, played, store):
    server = played()
    found = store(server)
    loop.wait(found.start())
    renewals = Renewals()
    found.listen(renewals)
    server.forgets_session = True
    server.cut()
    loop.until(lambda: renewals.seen == 1)
    assert loop.wait(found.exists("/a")) is None

    # Nothing is said on the connection that only learns of the end.
    assert server.asked == [["connect", "sasl", "sasl"], ["connect"], ["connect", "sasl", "sasl", EXISTS]]


def test_a_first_connection_that_is_lost_at_once_is_followed_by_another(loop, played, store):
    """kazoo's own start stops for good where it looks too late, one time in ten."""
    for _ in range(30):
        server = played()
        server.drops_first = True
        found = store(server, password=None)
        loop.wait(found.start())
        assert loop.wait(found.exists("/a")) is None
        assert server.asked == [["connect"], ["connect", EXISTS]]


def test_a_start_that_is_refused_ends_with_one_line(loop, played, store):
    with pytest.raises(StoreUnusableError, match="refuses the log-in of this broker") as refused:
        loop.wait(store(played(), password="wr0ng").start())
    assert "the server does not take user and password" in str(refused.value)
    assert "wr0ng" not in str(refused.value)


def test_a_server_without_sasl_ends_the_start_too(loop, played, store):
    with pytest.raises(StoreUnusableError, match="the server has no SASL"):
        loop.wait(store(played(sasl=False)).start())


def test_a_server_that_does_not_know_the_password_is_not_believed(loop, played, store):
    server = played()
    server._digest = lambda said, method: said["response"]
    with pytest.raises(StoreUnusableError, match="does not prove that it knows the password"):
        loop.wait(store(server).start())


def test_a_refusal_later_is_said_once_and_tried_again(loop, played, store, caplog):
    server = played()
    found = store(server)
    loop.wait(found.start())
    server.password = "another"
    asked = found.exists("/a")
    loop.wait(asked)
    server.cut()
    waits = found.exists("/b")
    loop.until(lambda: len(server.asked) >= 4)
    assert not waits.done
    server.password = "k-secret"
    assert loop.wait(waits) is None

    said = [each for each in caplog.messages if "log_in_refused" in each]
    assert len(said) == 1
    assert [requests for requests in server.asked if EXISTS in requests[:3]] == []
    assert "k-secret" not in caplog.text


def tls(authority, *names):
    """The two contexts of a server with this certificate."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    return server, ssl.create_default_context(cadata=authority.pem_text)


@pytest.mark.parametrize("name", ["127.0.0.1", "elsewhere"])
def test_tls_comes_first_and_names_are_compared(loop, played, store, tmp_path, name):
    authority = Authority()
    server_context, client_context = tls(authority)
    server_context.load_cert_chain(authority.sign(name).pem(tmp_path / "server.pem"))
    server = played(context=server_context)
    found = store(server, tls=lambda: client_context, connection_timeout_ms=1000)
    if name == "127.0.0.1":
        loop.wait(found.start())
        assert loop.wait(found.exists("/a")) is None
        assert server.asked == [["connect", "sasl", "sasl", EXISTS]]
    else:
        with pytest.raises(TimeoutError, match="CERTIFICATE_VERIFY_FAILED"):
            loop.wait(found.start())
        assert server.asked == []


def test_a_key_store_that_is_gone_meanwhile_is_an_attempt_that_failed(loop, played, store):
    contexts = iter([])

    def make():
        for each in contexts:
            return each
        raise ConfigError("Invalid value x for configuration zookeeper.ssl.keystore.location: No such file")

    with pytest.raises(TimeoutError, match=r"zookeeper\.ssl\.keystore\.location: No such file"):
        loop.wait(store(played(), tls=make, connection_timeout_ms=500).start())
