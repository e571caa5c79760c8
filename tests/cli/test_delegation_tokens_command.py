"""``barnabas delegation-tokens``, the twin of kafka-delegation-tokens.sh: its lines, and how it says no."""

import base64
import re

import pytest

from serving import free_port

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
DATE = r"\d{4}-\d\d-\d\dT\d\d:\d\d"
HEAD = (
    "TOKENID         HMAC                           OWNER           REQUESTER       "
    "RENEWERS                  ISSUEDATE       EXPIRYDATE      MAXDATE        "
)


def properties(path, user, password):
    path.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={PLAIN} required username="{user}" password="{password}";\n'
    )
    return str(path)


@pytest.fixture
def tool(barnabas, serve, tmp_path):
    """Runs the command as alice, or as another user."""
    port = free_port()
    settings = (
        f"listeners=SASL_PLAINTEXT://127.0.0.1:{port},PLAINTEXT://127.0.0.1:{free_port()}",
        "inter.broker.listener.name=PLAINTEXT",
        "sasl.enabled.mechanisms=PLAIN",
        f'listener.name.sasl_plaintext.plain.sasl.jaas.config={PLAIN} required user_alice="a" user_bob="b";',
        "delegation.token.secret.key=sesame",
    )
    serve(tmp_path / "data", *(part for each in settings for part in ("--set", each))).wait_until_ready()
    files = {user: properties(tmp_path / user, user, user[0]) for user in ("alice", "bob")}

    def run(*flags, user="alice"):
        where = ("--bootstrap-server", f"127.0.0.1:{port}", "--command-config", files[user])
        return barnabas("delegation-tokens", *where, *flags)

    return run


def test_a_token_is_made_shown_renewed_and_ended(tool):
    made = tool("--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob",
                "--renewer-principal", "User:c")  # fmt: skip
    assert made.exit_code == 0, made.stderr
    calling, created, _, head, _, row, *_ = made.stdout.split("\n")
    assert calling == (
        "Calling create token operation with renewers :[User:bob, User:c] , max-life-time-period :-1"
    )
    token_id = created.removeprefix("Created delegation token with tokenId : ")
    assert head == HEAD
    assert re.fullmatch(
        rf"{re.escape(token_id):15} [A-Za-z0-9+/]{{86}}== User:alice      User:alice      "
        rf"\[User:bob, User:c\]        {DATE} {DATE} {DATE}",
        row,
    )
    secret = row.split()[1]

    shown = tool("--describe")
    assert shown.stdout == (
        f"Calling describe token operation for current user.\nTotal number of tokens : 1\n{HEAD}\n\n{row}\n"
    )
    of_bob = tool("--describe", "--owner-principal", "User:bob", "--owner-principal", " User:x", user="bob")
    assert of_bob.stdout.startswith("Calling describe token operation for owners: [User:bob, User:x]\n")
    assert row in of_bob.stdout

    renewed = tool("--renew", "--renew-time-period", "60000", "--hmac", secret, user="bob")
    assert re.fullmatch(
        rf"Calling renew token operation with hmac :{re.escape(secret)} , renew-time-period :60000\n"
        rf"Completed renew operation. New expiry date : {DATE}",
        renewed.stdout,
    )
    ended = tool("--expire", "--expiry-time-period", "-1", "--hmac", secret)
    assert re.fullmatch(
        rf"Calling expire token operation with hmac :{re.escape(secret)} , expire-time-period :-1\n"
        rf"Completed expire operation. New expiry date : {DATE}",
        ended.stdout,
    )
    assert tool("--describe").stdout.endswith(f"Total number of tokens : 0\n{HEAD}\n")


KEYS = "org.apache.kafka.common.errors."


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ((), "Command must include exactly one action: --create, --renew, --expire or --describe"),
        (("--create", "--renew"), "Command must include exactly one action"),
        (("--create",), 'Missing required argument "[max-life-time-period]"'),
        (("--renew", "--renew-time-period", "1"), 'Missing required argument "[hmac]"'),
        (("--expire", "--hmac", "x"), 'Missing required argument "[expiry-time-period]"'),
        (
            ("--describe", "--hmac", "x"),
            'Option "[describe]" can\'t be used with option "[hmac]"',
        ),
        (
            ("--renew", "--hmac", "x", "--renew-time-period", "1", "--owner-principal", "User:a"),
            'Option "[renew]" can\'t be used with option "[owner-principal]"',
        ),
        (("--describe", "--owner-principal", "alice"), "principalType:principalName but got alice"),
        (("--expire", "--expiry-time-period", "1", "--hmac", "~"), "written in base64"),
        (
            ("--renew", "--renew-time-period", "1", "--hmac", base64.b64encode(b"x" * 64).decode()),
            f"{KEYS}DelegationTokenNotFoundException: Delegation Token is not found on server.",
        ),
        (
            ("--create", "--max-life-time-period", "1", "--renewer-principal", "Group:a"),
            f"{KEYS}InvalidPrincipalTypeException: Supplied principalType is not supported.",
        ),
    ],
)
def test_what_is_refused_is_one_line(tool, flags, words):
    refused = tool(*flags)
    assert refused.exit_code != 0
    assert words in refused.stderr
    assert "Traceback" not in refused.stderr
