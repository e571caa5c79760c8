"""``barnabas configs`` and ``barnabas topics --alter`` on a running broker."""

import pytest

from barnabas.admin import Admin, NewTopic
from waiting import until


@pytest.fixture
def topic(broker, topic_name):
    name = topic_name("configured")
    with Admin(broker.bootstrap) as admin:
        admin.topics.create(NewTopic(name, partitions=1, replication_factor=1))
    return name


@pytest.fixture
def tool(barnabas, broker):
    return lambda command, *flags: barnabas(command, "--bootstrap-server", broker.bootstrap, *flags)


@pytest.fixture
def configs(tool):
    return lambda *flags: tool("configs", *flags)


def test_values_of_a_topic_are_set_shown_and_deleted(configs, topic, tmp_path):
    of_topic = ("--entity-type", "topics", "--entity-name", topic)
    assert configs("--describe", *of_topic).stdout == f"Dynamic configs for topic {topic} are:\n"

    done = configs("--alter", *of_topic, "--add-config", "retention.ms=7, cleanup.policy = [compact,delete]")
    assert (done.stdout, done.exit_code) == (f"Completed updating config for topic {topic}.\n", 0)
    file = tmp_path / "more.properties"
    file.write_text("max.message.bytes=5000\n")
    assert configs("--alter", "--topic", topic, "--add-config-file", str(file)).exit_code == 0
    assert configs("--describe", *of_topic).stdout.splitlines()[1:] == [
        (
            "  cleanup.policy=compact,delete sensitive=false "
            "synonyms={DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact,delete,"
            " DEFAULT_CONFIG:log.cleanup.policy=delete}"
        ),
        (
            "  max.message.bytes=5000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:max.message.bytes=5000,"
            " DEFAULT_CONFIG:message.max.bytes=1048588}"
        ),
        "  retention.ms=7 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=7}",
    ]

    assert (
        configs("--alter", "--topic", topic, "--delete-config", "retention.ms,cleanup.policy").exit_code == 0
    )
    assert [line.split("=")[0] for line in configs("--describe", *of_topic).stdout.splitlines()[1:]] == [
        "  max.message.bytes"
    ]
    everything = configs("--describe", "--topic", topic, "--all").stdout.splitlines()
    assert everything[0] == f"All configs for topic {topic} are:"
    assert any(line.startswith("  retention.bytes=-1 ") for line in everything)


def test_brokers_have_values_of_their_own_and_shared_ones(configs, serve, barnabas, tmp_path):
    server = serve(tmp_path / "own")
    own = lambda *flags: barnabas("configs", "--bootstrap-server", server.bootstrap, *flags)  # noqa: E731
    server.wait_until_ready()
    one = ("--entity-type", "brokers", "--entity-name", "0")

    assert own("--alter", "--broker-defaults", "--add-config", "log.retention.ms=900000").stdout == (
        "Completed updating default config for brokers in the cluster.\n"
    )
    assert own("--alter", *one, "--add-config", "message.max.bytes=2000").exit_code == 0
    shown = [
        "Dynamic configs for broker 0 are:",
        (
            "  message.max.bytes=2000 sensitive=false synonyms={DYNAMIC_BROKER_CONFIG:message.max.bytes=2000,"
            " DEFAULT_CONFIG:message.max.bytes=1048588}"
        ),
        "Default configs for brokers in the cluster are:",
        (
            "  log.retention.ms=900000 sensitive=false"
            " synonyms={DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.ms=900000}"
        ),
    ]
    # A broker gets its new values by a watch, as any broker of the cluster does.
    described = lambda *flags: own("--describe", *flags).stdout.splitlines()  # noqa: E731
    until(lambda: described("--entity-type", "brokers") == shown, "both values")
    assert own("--alter", "--broker", "0", "--delete-config", "message.max.bytes").exit_code == 0
    until(lambda: described("--broker", "0") == ["Dynamic configs for broker 0 are:"], "no value")
    assert server.stop() == 0


@pytest.mark.parametrize(("kind", "noun"), [("brokers", "broker"), ("broker-loggers", "broker-logger")])
def test_a_broker_that_is_not_in_the_cluster_is_said_at_once(configs, kind, noun):
    """Where it was waited for, as by Kafka 3.9's script, a line of a warning came first."""
    flags = ("--entity-type", kind, "--entity-name", "99")

    shown = configs("--describe", *flags)
    assert (shown.exit_code, shown.stderr) == (0, "")
    assert shown.stdout == f"The {noun} '99' doesn't exist and doesn't have dynamic config.\n"
    changed = configs("--alter", *flags, "--add-config", "log.cleaner.threads=2")
    assert (changed.exit_code, changed.stdout) == (1, "")
    assert changed.stderr == "There is no broker 99 in the cluster now\n"


def test_what_the_cluster_refuses_repeats_the_command_line(configs, topic, broker):
    flags = ("--alter", "--topic", topic, "--add-config", "retention.ms=soon")
    result = configs(*flags)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.splitlines() == [
        (
            "Error while executing config command with args"
            f" '--bootstrap-server {broker.bootstrap} {' '.join(flags)}'"
        ),
        (
            "java.util.concurrent.ExecutionException: "
            "org.apache.kafka.common.errors.InvalidConfigurationException:"
            f" Invalid config value for resource ConfigResource(type=TOPIC, name='{topic}'):"
            " Invalid value soon for configuration retention.ms: Not a number of type LONG"
        ),
    ]


def test_a_refusal_repeats_no_password(configs, broker):
    added = (
        "SCRAM-SHA-256=[iterations=4096,password=hunter2],SCRAM-SHA-512=[iterations=99999,password=hunter2]"
    )
    refused = configs("--alter", "--entity-type", "users", "--entity-name", "alice", "--add-config", added)
    assert refused.exit_code == 1
    assert "--add-config SCRAM-SHA-256=[iterations=4096,password=[hidden]'" in refused.stderr
    assert "Too many iterations" in refused.stderr
    keys = "listener.name.x.plain.sasl.jaas.config=[a hunter2],ssl.keystore.key=hunter2"
    refused = configs("--alter", "--broker", "0", "--add-config", keys)
    assert refused.exit_code == 1
    assert "hunter2" not in refused.stderr


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        ("--describe --alter", "Command must include exactly one action: --describe, --alter"),
        ("--describe", "At least one entity type must be specified"),
        (
            "--alter --entity-type clients --entity-name c --add-config a=b",
            "Only quota configs can be added for 'clients' using --bootstrap-server. Unexpected config nam",
        ),
        (
            "--describe --entity-type users --entity-name a --entity-name b",
            "More entity names specified than entity types",
        ),
        (
            "--describe --entity-type topic",
            "Invalid entity type topic, the entity type must be one of topics, ",
        ),
        (
            "--describe --broker one",
            "The entity name for brokers must be a valid integer broker id, but it is: one",
        ),
        ("--describe --topic a --entity-name b", "--entity-{type,name,default} should not be used in "),
        (
            "--alter --entity-type topics --add-config a=b",
            "an entity name must be specified with --alter of top",
        ),
        ("--alter --topic a", "At least one of --add-config, --add-config-file, or --delete-config must be "),
        (
            "--alter --topic a --add-config a=b --add-config c=d",
            "Found multiple arguments for option add-config",
        ),
        (
            "--alter --topic a --add-config a=b=c",
            "requirement failed: Invalid entity config: all configs to be",
        ),
        ("--alter --topic a --add-config a/b=c", "Invalid character found for config key: a/b"),
    ],
)
def test_flags_that_do_not_go_together_are_said_in_a_line(configs, flags, line):
    result = configs(*flags.split())
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(line)


def test_a_key_that_was_not_set_cannot_be_deleted(configs, topic):
    result = configs("--alter", "--topic", topic, "--delete-config", "retention.ms")
    assert (result.exit_code, result.stderr) == (1, "Invalid config(s): retention.ms\n")


def test_a_topic_gets_more_partitions(tool, broker, topic):
    assert tool("topics", "--alter", "--topic", topic, "--partitions", "3").exit_code == 0
    assignment = ("--partitions", "4", "--replica-assignment", "0,0,0,0")
    assert tool("topics", "--alter", "--topic", topic, *assignment).exit_code == 0
    with Admin(broker.bootstrap) as admin:
        assert len(admin.topics.describe([topic])[topic].partitions) == 4

    fewer = tool("topics", "--alter", "--topic", topic, "--partitions", "2")
    assert (fewer.exit_code, fewer.stderr) == (
        1,
        (
            "Error while executing topic command : Topic currently has 4 partitions, which is higher than "
            "the requested 2.\n"
        ),
    )
    assert (
        tool("topics", "--alter", "--topic", "never-made", "--partitions", "2", "--if-exists").exit_code == 0
    )
    wrong = tool("topics", "--alter", "--topic", topic, "--partitions", "9", "--config", "a=b")
    assert wrong.stderr.startswith(
        'Error: Option combination "[[bootstrap-server], [config]]" can\'t be used'
    )


@pytest.mark.parametrize(
    "entities",
    ["users --entity-type clients --entity-default", "users --entity-name nobody", "ips --entity-default"],
)
def test_where_there_are_no_quotas_none_are_shown(configs, entities):
    result = configs("--describe", "--entity-type", *entities.split())

    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")


def test_quotas_are_set_shown_and_removed(configs, topic_name):
    user = topic_name("user")
    app = f"{user} app"
    done = configs(
        "--alter", "--user", user, "--add-config", "producer_byte_rate=1024,request_percentage=2.5"
    )
    assert (done.stdout, done.exit_code) == (f"Completed updating config for user {user}.\n", 0)
    both = ("--entity-type", "users", "--entity-name", user, "--entity-type", "clients")
    configs("--alter", *both, "--entity-name", app, "--add-config", "consumer_byte_rate=12345678")
    assert configs("--describe", "--user", user).stdout == (
        f"Quota configs for user-principal '{user}' are producer_byte_rate=1024.0, request_percentage=2.5\n"
    )
    assert configs("--describe", *both).stdout == (
        f"Quota configs for user-principal '{user}', client-id '{app}' are consumer_byte_rate=1.2345678E7\n"
    )
    of_all = ("--entity-type", "users", "--entity-default", "--entity-type", "clients", "--entity-name", app)
    done = configs("--alter", *of_all, "--add-config", "producer_byte_rate=7")
    assert done.stdout == "Completed updating default config for users in the cluster.\n"
    assert configs("--describe", *of_all).stdout == (
        f"Quota configs for the default user-principal, client-id '{app}' are producer_byte_rate=7.0\n"
    )

    assert configs("--alter", *of_all, "--delete-config", "producer_byte_rate").exit_code == 0
    assert configs("--describe", *of_all).stdout == ""
    again = configs("--alter", *of_all, "--delete-config", "producer_byte_rate")
    assert (again.exit_code, again.stderr) == (1, "Invalid config(s): producer_byte_rate\n")


def test_addresses_have_quotas(configs):
    assert configs("--alter", "--ip-defaults", "--add-config", "connection_creation_rate=1000").stdout == (
        "Completed updating default config for ips in the cluster.\n"
    )
    configs("--alter", "--ip", "10.0.0.7", "--add-config", "connection_creation_rate=3")
    assert configs("--describe", "--ip", "10.0.0.7").stdout == (
        "Quota configs for ip '10.0.0.7' are connection_creation_rate=3.0\n"
    )
    assert configs("--alter", "--ip-defaults", "--delete-config", "connection_creation_rate").exit_code == 0


def test_a_user_gets_credentials_and_loses_them(configs, topic_name):
    user = topic_name("scram")
    done = configs(
        "--alter",
        "--entity-type",
        "users",
        "--entity-name",
        user,
        "--add-config",
        "SCRAM-SHA-256=[iterations=8192,password=pass,word]",
    )
    assert (done.stdout, done.stderr) == (f"Completed updating config for user {user}.\n", "")
    shown = f"SCRAM credential configs for user-principal '{user}' are SCRAM-SHA-256=iterations=8192\n"
    assert configs("--describe", "--user", user).stdout == shown
    assert configs("--alter", "--user", user, "--delete-config", "SCRAM-SHA-256").exit_code == 0
    assert configs("--describe", "--user", user).stdout == ""
    again = configs("--alter", "--user", user, "--delete-config", "SCRAM-SHA-256")
    assert again.stderr.splitlines()[1] == (
        "java.util.concurrent.ExecutionException: org.apache.kafka.common.errors.ResourceNotFoundException: "
        "Attempt to delete a user credential that does not exist"
    )


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        ("--user u --add-config a=1", "Only quota and SCRAM credential configs can be added for 'users'"),
        ("--user u --delete-config a", "Only quota and SCRAM credential configs can be deleted for 'users'"),
        ("--client c --add-config SCRAM-SHA-256=x", "Only quota configs can be added for 'clients' using"),
        ("--client c --delete-config b,a", "Only quota configs can be deleted for 'clients' using"),
        ("--user-defaults --add-config SCRAM-SHA-256=[password=x]", "The use of --entity-default or "),
        (
            "--user u --add-config SCRAM-SHA-256=[password=x],producer_byte_rate=1",
            "Cannot alter both quota and SCRAM credential configs simultaneously for 'users'",
        ),
        ("--ip 10.0.0.1 --add-config producer_byte_rate=1", "Only connection quota configs can be added for"),
        (
            "--ip nowhere --add-config connection_creation_rate=1",
            "The entity name for ips must be a va",
        ),
        (
            "--client c --add-config producer_byte_rate=many",
            "Cannot parse quota configuration va",
        ),
        (
            "--user u --add-config SCRAM-SHA-256=[iterations=5,password=x]",
            "Iterations 5 is less than",
        ),
        ("--user u --add-config SCRAM-SHA-256=secret", "Invalid credential property SCRAM_SHA_256=[hidden]"),
        (
            "--entity-type users --entity-type clients --entity-name c --add-config producer_byte_rate=1",
            "An entity name must be specified for every entity type",
        ),
        ("--entity-type users --add-config producer_byte_rate=1", "an entity-name or default entity must be"),
    ],
)
def test_what_users_clients_and_addresses_cannot_have(configs, flags, line):
    result = configs("--alter", *flags.split())
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(line)
    assert "secret" not in result.stderr


def test_what_the_cluster_refuses_of_a_quota(configs):
    result = configs("--alter", "--client", "c", "--add-config", "producer_byte_rate=1.5")
    assert result.stderr.splitlines()[1] == (
        "java.util.concurrent.ExecutionException: org.apache.kafka.common.errors.InvalidRequestException: "
        "Configuration producer_byte_rate must be a LONG value"
    )


def test_levels_of_loggers_are_shown_and_changed(configs):
    of_broker = ("--entity-type", "broker-loggers", "--entity-name", "0")
    logger = "barnabas.log.cleaner"
    assert configs("--alter", *of_broker, "--add-config", f"{logger}=ERROR").exit_code == 0

    lines = configs("--describe", *of_broker).stdout.splitlines()
    assert lines[0] == "Dynamic configs for broker-logger 0 are:"
    assert f"  {logger}=ERROR sensitive=false synonyms={{}}" in lines
    assert "  kafka.log.LogCleaner=ERROR sensitive=false synonyms={}" in lines
    done = configs("--alter", *of_broker, "--delete-config", logger)
    assert done.stdout == "Completed updating config for broker-logger 0.\n"
    assert f"  {logger}=ERROR sensitive=false synonyms={{}}" not in configs("--describe", *of_broker).stdout
    assert configs("--alter", *of_broker, "--add-config", "no.such=INFO").stderr.startswith(
        "Invalid broker logger(s): no.such"
    )
