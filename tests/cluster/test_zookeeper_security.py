"""How a client of ZooKeeper is to log in and encrypt, from Kafka's keys and KAFKA_OPTS; and what it leaves on
znodes.
"""

import pytest
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE
from kazoo_fake import played_store

from barnabas.cluster.store.contract import Create
from barnabas.cluster.store.zookeeper_acls import default_acls
from barnabas.cluster.store.zookeeper_security import ZookeeperSecurity, zookeeper_security
from barnabas.core.broker_config import broker_config
from barnabas.core.errors import ConfigError
from barnabas.core.login_file import java_properties
from tls_certificates import PASSWORD, Authority

DIGEST = "org.apache.zookeeper.server.auth.DigestLoginModule"
KERBEROS = "com.sun.security.auth.module.Krb5LoginModule"
TLS = {
    "zookeeper.ssl.client.enable": "true",
    "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
}
SET_ACL = {"zookeeper.set.acl": "true"}


@pytest.fixture
def login(tmp_path):
    """Writes a file of JAAS; what a JVM is told about it."""

    def write(text=f'Client {{ {DIGEST} required username="kafka" password="s3cret"; }};'):
        path = tmp_path / "kafka.jaas"
        path.write_text(text)
        return {"java.security.auth.login.config": str(path)}

    return write


@pytest.fixture
def stores(tmp_path):
    """The keys of a key store and a trust store."""
    authority = Authority()
    return {
        "zookeeper.ssl.keystore.location": authority.sign("broker").p12(tmp_path / "key.p12"),
        "zookeeper.ssl.keystore.password": PASSWORD,
        "zookeeper.ssl.truststore.location": authority.pem(tmp_path / "trust.pem"),
    }


def security(given=None, properties=None):
    return zookeeper_security(broker_config(given or {}), properties or {})


def test_nothing_is_asked_for_and_nothing_is_done():
    found = security()
    assert (found.login, found.tls, found.certificate, found.set_acl) == (None, None, False, False)


def test_what_kafka_opts_gives_a_jvm():
    options = '-Xmx1G -Djava.security.auth.login.config="/a b/c" -Dzookeeper.sasl.client=false -Dx'
    assert java_properties(options) == {
        "java.security.auth.login.config": "/a b/c",
        "zookeeper.sasl.client": "false",
        "x": "",
    }
    with pytest.raises(ConfigError, match="KAFKA_OPTS"):
        java_properties('-Dx="')


@pytest.mark.parametrize("written", ["{}", "={}", "file:{}"])
def test_the_section_client_says_who_this_is(login, written):
    location = login()["java.security.auth.login.config"]
    found = security(SET_ACL, {"java.security.auth.login.config": written.format(location)})

    assert found.login.user == "kafka"
    assert found.login.password == "s3cret"
    assert found.set_acl
    assert "s3cret" not in repr(found)


def test_another_section_may_be_named(login):
    properties = login(f"Zk {{ {DIGEST} required username=u password=p; }};")
    assert security({}, properties).login is None
    assert security({}, {**properties, "zookeeper.sasl.clientconfig": "Zk"}).login.user == "u"


@pytest.mark.parametrize(
    ("text", "properties", "problem"),
    [
        (None, {"zookeeper.sasl.client": "false"}, "is there, but zookeeper.sasl.client is false"),
        ("Client { };", {}, "has one login module"),
        (f"Client {{ {KERBEROS} required useKeyTab=true; }};", {}, "Kerberos is not available"),
        (f"Client {{ {DIGEST} required username=u; }};", {}, "no username and password"),
        (f"Client {{ {DIGEST} required password=s3cret; }};", {}, "no username and password"),
        (f"Client {{ {DIGEST} required password=s3cret }};", {}, "name=value"),
    ],
)
def test_a_login_that_cannot_be_is_refused(login, text, properties, problem):
    given = login(text) if text else login()
    with pytest.raises(ConfigError, match=problem) as refused:
        security({}, {**given, **properties})
    assert "java.security.auth.login.config" in str(refused.value)
    assert "s3cret" not in str(refused.value)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"none\.jaas.*No such file"):
        security({}, {"java.security.auth.login.config": str(tmp_path / "none.jaas")})


def test_acls_need_somebody_whom_they_are_for(login, stores):
    with pytest.raises(ConfigError, match="nobody to ZooKeeper"):
        security(SET_ACL)
    without = {key: value for key, value in stores.items() if "trust" in key}
    with pytest.raises(ConfigError, match="nobody to ZooKeeper"):
        security({**SET_ACL, **TLS, **without})

    assert security(SET_ACL, login()).set_acl
    assert security({**SET_ACL, **TLS, **stores}).set_acl


def test_tls_reads_its_stores_for_each_connection(stores, tmp_path):
    found = security({**TLS, **stores})
    first = found.tls()
    Authority("another").pem(tmp_path / "trust.pem")
    second = found.tls()

    assert found.certificate
    assert first.check_hostname
    assert [each.get_ca_certs()[0]["subject"] for each in (first, second)] == [
        ((("commonName", name),),) for name in ("Authority", "another")
    ]


def test_versions_and_names_as_kafkas_client_has_them(stores):
    def made(**given):
        keys = {key.replace("_", "."): value for key, value in given.items()}
        context = security({**TLS, **stores, **keys}).tls()
        return context.minimum_version.name, context.maximum_version.name, context.check_hostname

    assert made() == ("TLSv1_2", "TLSv1_2", True)
    assert made(zookeeper_ssl_protocol="TLSv1.3") == ("TLSv1_3", "TLSv1_3", True)
    both = made(zookeeper_ssl_enabled_protocols="TLSv1.2,TLSv1.3")
    assert both == ("TLSv1_2", "TLSv1_3", True)
    assert made(zookeeper_ssl_endpoint_identification_algorithm="")[2] is False


def test_properties_of_java_count_where_a_key_is_not_set(stores):
    properties = {
        "zookeeper.client.secure": "true",
        "zookeeper.clientCnxnSocket": TLS["zookeeper.clientCnxnSocket"],
        "zookeeper.ssl.keyStore.location": stores["zookeeper.ssl.keystore.location"],
        "zookeeper.ssl.keyStore.password": PASSWORD,
        "zookeeper.ssl.trustStore.location": "/nowhere",
        "zookeeper.ssl.hostnameVerification": "false",
    }
    trusted = {"zookeeper.ssl.truststore.location": stores["zookeeper.ssl.truststore.location"]}
    found = security(trusted, properties)

    assert found.certificate
    assert not found.tls().check_hostname
    assert security({"zookeeper.ssl.client.enable": "false"}, properties).tls is None


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("zookeeper.clientCnxnSocket", "org.apache.zookeeper.ClientCnxnSocketNIO", "ClientCnxnSocketNetty"),
        ("zookeeper.clientCnxnSocket", "org.example.Socket", "String must be one of"),
        ("zookeeper.ssl.keystore.password", "s3cret", r"configuration zookeeper\.ssl\.keystore\.location"),
        ("zookeeper.ssl.truststore.location", "/nowhere", r"zookeeper\.ssl\.truststore\.location: No such"),
        ("zookeeper.ssl.enabled.protocols", "TLSv1", r"configuration zookeeper\.ssl\.enabled\.protocols"),
        ("zookeeper.ssl.cipher.suites", "TLS_NULL", r"configuration zookeeper\.ssl\.cipher\.suites"),
        ("zookeeper.ssl.endpoint.identification.algorithm", "ldaps", "it is https, or empty"),
        ("zookeeper.ssl.crl.enable", "true", "was revoked is not asked for"),
    ],
)
def test_what_would_be_less_than_was_asked_for_is_refused(stores, key, value, problem):
    with pytest.raises(ConfigError, match=problem) as refused:
        security({**TLS, **stores, key: value})
    assert "s3cret" not in str(refused.value)
    assert PASSWORD not in str(refused.value)


@pytest.mark.parametrize(
    ("path", "readers"),
    [
        ("/brokers/topics/t", True),
        ("/config", True),
        ("/config/topics/users", True),
        ("/config/users", False),
        ("/config/users/alice", False),
        ("/config/brokers/1", False),
        ("/delegation_token/tokens/x", False),
        ("/delegation_token/token_changes", True),
        ("/consumers/old", True),
    ],
)
def test_who_may_do_what_with_a_znode(path, readers):
    assert default_acls(path, secure=True) == [*CREATOR_ALL_ACL, *(READ_ACL_UNSAFE if readers else [])]
    assert default_acls(path, secure=False) == OPEN_ACL_UNSAFE


def test_the_old_consumers_path_stays_open():
    assert default_acls("/consumers", secure=True) == OPEN_ACL_UNSAFE


@pytest.mark.parametrize("secure", [True, False])
def test_each_znode_is_made_with_its_acl_below_the_chroot(loop, fake_zookeeper, monkeypatch, secure):
    security = ZookeeperSecurity(set_acl=secure)
    store, kazoo = played_store(
        monkeypatch, fake_zookeeper.ensemble, loop.call_soon, "played:1/config/users", security
    )
    loop.wait(store.start())
    made = ["/brokers", "/config", "/config/users"]
    loop.wait(store.multi([Create(path) for path in made[:2]]))
    loop.wait(store.create(made[2], ephemeral=True))

    below = {path: acl for path, acl in kazoo.acls.items() if path.count("/") > 2}
    assert below == {f"/config/users{path}": default_acls(path, secure=secure) for path in made}
    # The chroot itself has the ACL of its path from the root.
    assert kazoo.acls["/config/users"] == default_acls("/config/users", secure=secure)
    loop.wait(store.close())
