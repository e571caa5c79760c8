"""``barnabas configs --entity-type groups`` on a running broker.

The lines are those of the script of Kafka 4.3.1 on a genuine 4.4.0, which has keys of share groups and of
groups of Streams besides.
"""


def test_the_settings_of_a_group_from_the_first_to_the_last(broker, barnabas):
    def run(*arguments):
        return barnabas("configs", *arguments, "--bootstrap-server", broker.bootstrap)

    def lines(*arguments):
        done = run(*arguments)
        assert done.exit_code == 0, done.stderr
        return done.stdout.splitlines()

    def default_line(name, value):
        synonym = f"DEFAULT_CONFIG:group.consumer.{name}={value}"
        return f"  consumer.{name}={value} sensitive=false synonyms={{{synonym}}}"

    key, default = "consumer.heartbeat.interval.ms", "DEFAULT_CONFIG:group.consumer"
    assert lines("--describe", "--group", "nobody") == [
        "The group 'nobody' doesn't exist and doesn't have dynamic config."
    ]
    assert lines("--alter", "--group", "billing", "--add-config", f"{key}=6000") == [
        "Completed updating config for group billing."
    ]
    set_line = (
        f"  {key}=6000 sensitive=false synonyms={{DYNAMIC_GROUP_CONFIG:{key}=6000, "
        f"{default}.heartbeat.interval.ms=5000}}"
    )
    assert lines("--describe", "--entity-type", "groups") == [
        "Dynamic configs for group billing are:",
        set_line,
    ]
    assert lines("--describe", "--group", "billing", "--all") == [
        "All configs for group billing are:",
        default_line("assignment.interval.ms", 1000),
        set_line,
        default_line("session.timeout.ms", 45000),
    ]
    refused = run("--alter", "--group", "billing", "--add-config", f"{key}=1")
    assert refused.exit_code == 1
    assert f"{key} must be in the range 5000 to 15000 inclusive." in refused.stderr
    nameless = run("--alter", "--entity-type", "groups", "--add-config", f"{key}=6000")
    assert "n entity name must be specified with --alter of groups" in nameless.stderr

    assert lines("--alter", "--group", "billing", "--delete-config", f"{key},unset") == [
        "Completed updating config for group billing."
    ]
    assert lines("--describe", "--entity-type", "groups") == []
