"""``barnabas client-metrics`` and ``barnabas configs --entity-type client-metrics`` on a running broker.

The lines are those of the scripts of Kafka 4.3.1 on a genuine 4.4.0.
"""

import pytest


def test_a_subscription_from_its_making_to_its_end(broker, barnabas):
    server = ("--bootstrap-server", broker.bootstrap)

    def lines(*arguments):
        done = barnabas(*arguments, *server)
        assert done.exit_code == 0, done.stderr
        return done.stdout.splitlines()

    made = lines(
        "client-metrics", "--alter", "--name", "lag", "--interval", "1000", "--match", "client_id=a.*"
    )
    assert made == ["Altered client metrics config for lag."]
    assert lines("client-metrics", "--list") == ["lag"]
    assert lines("client-metrics", "--describe") == [
        "Client metrics configs for lag are:",
        "  interval.ms=1000",
        "  match=client_id=a.*",
        "  metrics=",
    ]
    source = "DYNAMIC_CLIENT_METRICS_CONFIG"
    lines("configs", "--alter", "--client-metrics", "lag", "--delete-config", "match,unset")
    assert lines("configs", "--describe", "--entity-type", "client-metrics") == [
        "Dynamic configs for client-metric lag are:",
        f"  interval.ms=1000 sensitive=false synonyms={{{source}:interval.ms=1000}}",
    ]
    assert lines("client-metrics", "--delete", "--name", "lag") == ["Deleted client metrics config for lag."]
    assert lines("client-metrics", "--describe", "--name", "lag") == [
        "The client metric resource lag doesn't exist and doesn't have dynamic config."
    ]
    assert lines("configs", "--describe", "--client-metrics", "lag") == [
        "The client-metric 'lag' doesn't exist and doesn't have dynamic config."
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Command must include exactly one action: --alter, --delete, --describe or --list."),
        (["--alter", "--list"], "Command must include exactly one action:"),
        (["--alter"], "One of --name or --generate-name must be specified with --alter."),
        (["--delete"], "A client metrics resource name must be specified with --delete."),
        (["--list", "--name", "x"], 'Option "[list]" can\'t be used with option "[name]"'),
        (["--describe", "--interval", "1"], 'Option "[describe]" can\'t be used with option "[interval]"'),
        (
            ["--alter", "--name", "x", "--interval", "soon"],
            "Invalid interval value. Enter an integer, or leave empty to reset.",
        ),
        (
            ["--alter", "--name", "x", "--interval", "99"],
            "Invalid value 99 for interval.ms, interval must be between 100 and 3600000 (1 hour)",
        ),
    ],
)
def test_what_cannot_be_asked_is_refused_with_the_scripts_line(broker, barnabas, arguments, message):
    done = barnabas("client-metrics", *arguments, "--bootstrap-server", broker.bootstrap)

    assert done.exit_code == 1
    assert message in done.stderr
