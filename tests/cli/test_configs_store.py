"""``barnabas configs --store``: credentials of users without a broker, in the lines of kafka-configs.sh
--zookeeper of Kafka 3.9. Where that shows a password, ours does not.
"""

import json
import shutil

import pytest

from barnabas.admin import Admin
from barnabas.cluster.store.sqlite_table import Database
from barnabas.core.scram import ScramMechanism, parse_credential
from barnabas.node.environment import METADATA_FILE
from waiting import until

SHA_256, SHA_512 = "SCRAM-SHA-256", "SCRAM-SHA-512"
ONLY_SCRAM = "User configuration updates using ZooKeeper are only supported for SCRAM credential updates"


@pytest.fixture(scope="module")
def ended(serve, tmp_path_factory):
    """The data folder of a broker that was there and ended."""
    data = tmp_path_factory.mktemp("ended") / "data"
    server = serve(data)
    server.wait_until_ready()
    server.stop()
    return data


@pytest.fixture
def stopped(ended, tmp_path):
    """A copy of it."""
    return shutil.copytree(ended, tmp_path / "stopped")


@pytest.fixture
def configs(barnabas, stopped):
    return lambda *flags, store=stopped: barnabas(
        "configs", "--store", str(store), "--entity-type", "users", *flags
    )


def stored(data, user):
    database = Database.read_only(data / METADATA_FILE)
    try:
        return json.loads(database.find(f"/config/users/{user}").data)["config"]
    finally:
        database.close()


def test_a_credential_is_added_shown_and_removed(configs, stopped):
    added = configs(
        "--alter", "--entity-name", "a b=c",
        "--add-config", f"{SHA_256}=[iterations=8192,password=se,cret],{SHA_512}=[password=other]",
    )  # fmt: skip
    assert added.stdout == "Completed updating config for entity: user-principal 'a b=c'.\n"
    values = stored(stopped, "a%20b%3Dc")
    for mechanism, password, iterations in ((SHA_256, "se,cret", 8192), (SHA_512, "other", 4096)):
        scram = ScramMechanism(mechanism)
        kept = parse_credential(scram, values[mechanism])
        assert kept == kept.of_password(scram, password, kept.salt, iterations)
        assert len(kept.salt) >= 16
    described = configs("--describe", "--entity-name", "a b=c").stdout
    assert described == (
        f"Configs for user-principal 'a b=c' are {SHA_256}={values[SHA_256]},{SHA_512}={values[SHA_512]}\n"
    )
    assert configs("--describe").stdout == described
    removed = configs("--alter", "--entity-name", "a b=c", "--delete-config", SHA_512)
    assert removed.stdout == "Completed updating config for entity: user-principal 'a b=c'.\n"
    assert list(stored(stopped, "a%20b%3Dc")) == [SHA_256]
    configs("--alter", "--entity-name", "a b=c", "--delete-config", SHA_256)
    assert configs("--describe").stdout == ""
    assert configs("--describe", "--entity-name", "nobody").stdout == (
        "Configs for user-principal 'nobody' are \n"
    )
    assert configs("--describe", "--entity-default").stdout == "Configs for default user-principal are \n"


def test_a_password_comes_from_a_file(configs, stopped, tmp_path):
    file = tmp_path / "alice.properties"
    file.write_text(f"{SHA_512}=iterations=5000,password=secret\n")
    assert configs("--alter", "--entity-name", "alice", "--add-config-file", str(file)).stderr == ""
    kept = parse_credential(ScramMechanism.SHA_512, stored(stopped, "alice")[SHA_512])
    assert kept.iterations == 5000


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--add-config", f"{SHA_256}=[iterations=100,password=hunter2]"),
         "Iterations 100 is less than the minimum 4096 required for SCRAM_SHA_256\n"),
        (("--add-config", f"{SHA_512}=[pass=hunter2]"), "Invalid credential property SCRAM_SHA_512=[hidden]"),
        (("--add-config", f"{SHA_256}=[password=]"), "Empty key\n"),
        (("--add-config", f"{SHA_256}=[password=hunter2],x=hunter2"), ONLY_SCRAM),
        (("--add-config", "producer_byte_rate=1000"),
         "requirement failed: --bootstrap-server option must be specified to update users configs: "
         "{add: {producer_byte_rate=[hidden]}, delete: List()}. " + ONLY_SCRAM),
        (("--delete-config", "producer_byte_rate"),
         "users configs: {add: {}, delete: ArrayBuffer(producer_byte_rate)}. " + ONLY_SCRAM),
        (("--delete-config", SHA_256), f"Invalid config(s): {SHA_256}\n"),
    ],
)  # fmt: skip
def test_what_is_refused_shows_no_password(configs, flags, said):
    refused = configs("--alter", "--entity-name", "bob", *flags)
    assert refused.exit_code == 1
    assert said in refused.stderr
    assert "hunter2" not in refused.stderr + refused.stdout
    assert "bob" not in configs("--describe").stdout


def test_the_default_user_has_no_credential(configs):
    refused = configs("--alter", "--entity-default", "--add-config", f"{SHA_256}=[password=x]")
    assert refused.stderr.endswith(
        f"requirement failed: Unknown Dynamic Configuration: HashSet({SHA_256}).\n"
    )


@pytest.mark.parametrize("kind", ["topics", "clients", "ips"])
def test_a_store_alone_has_users(barnabas, stopped, kind):
    refused = barnabas(
        "configs", "--store", str(stopped), "--describe", "--entity-type", kind, "--entity-name", "x"
    )
    assert refused.exit_code == 1
    assert f"Invalid entity type {kind}, the entity type must be one of users, brokers with a" in (
        refused.stderr
    )


def test_one_place_is_named(configs, tmp_path):
    refused = configs("--describe", "--bootstrap-server", "127.0.0.1:1")
    assert "Only one of --bootstrap-server, --boostrap-controller, and --zookeeper" in refused.stderr
    refused = configs("--describe", store=tmp_path)
    assert f"{tmp_path / METADATA_FILE} is not there" in refused.stderr
    assert not (tmp_path / METADATA_FILE).exists()


def test_a_broker_that_runs_learns_of_it(serve, tmp_path, configs):
    server = serve(tmp_path / "data")
    server.wait_until_ready()
    configs(
        "--alter", "--entity-name", "eve", "--add-config", f"{SHA_512}=[password=x]", store=server.data_dir
    )
    with Admin(server.bootstrap) as admin:
        until(lambda: admin.quotas.scram_credentials("eve") == {"eve": {2: 4096}})
