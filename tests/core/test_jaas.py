"""The grammar of JAAS, as a line and as a file."""

import pytest

from barnabas.core.errors import ConfigError
from barnabas.core.jaas import parse_jaas, parse_login_file

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.mark.parametrize(
    ("line", "options"),
    [
        (f'{PLAIN} required username="a" password="b";', {"username": "a", "password": "b"}),
        (f"{PLAIN}\n  REQUIRED\n username=a\n password='b c';\n", {"username": "a", "password": "b c"}),
        (f"{PLAIN} optional ;", {}),
        (f'{PLAIN} required p="a=b;c" q="x\\"y\\\\z";', {"p": "a=b;c", "q": 'x"y\\z'}),
    ],
)
def test_a_line_has_a_module_and_options(line, options):
    module = parse_jaas(line)
    assert module.name == PLAIN
    assert module.options == options
    assert "b" not in repr(module).replace(PLAIN, "")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("", "ends with ;"),
        (f'{PLAIN} required password="s3cret"', "ends with ;"),
        (f'{PLAIN} required password="s3cret;', "a quote is not closed"),
        (f'{PLAIN} perhaps password="s3cret";', "one of required, requisite"),
        (f'{PLAIN} required password "s3cret";', "each option is name=value"),
        (f'{PLAIN} required password="s3cret"; {PLAIN} required;', "one login module and no more"),
        ('"s3cret" required;', "begins with the class"),
        (f"{PLAIN} required {'x' * 70_000}=s3cret;", "too long"),
    ],
)
def test_a_line_that_is_none_is_refused_without_its_secrets(line, problem):
    with pytest.raises(ConfigError, match=problem) as refused:
        parse_jaas(line, "listener.name.x.plain.sasl.jaas.config")
    assert "listener.name.x.plain.sasl.jaas.config" in str(refused.value)
    assert "s3cret" not in str(refused.value)


def test_a_file_has_sections_of_modules():
    sections = parse_login_file(
        f"""
        // of brokers
        KafkaServer {{
            {PLAIN} required username="broker" password="a//b;}}" /* not * the end */ user_broker=x;
            org.apache.kafka.common.security.scram.ScramLoginModule required;
        }};
        Client{{{PLAIN} required password=c;}};
        Empty {{ }};
        """,
        "file",
    )

    assert {name: len(modules) for name, modules in sections.items()} == {
        "KafkaServer": 2,
        "Client": 1,
        "Empty": 0,
    }
    assert sections["KafkaServer"][0].options == {
        "username": "broker",
        "password": "a//b;}",
        "user_broker": "x",
    }
    assert sections["Client"][0].options == {"password": "c"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Client", "each section is NAME"),
        (f"Client {PLAIN} required password=s3cret;", "each section is NAME"),
        (f"Client {{ {PLAIN} required password=s3cret;", "ends with };"),
        (f"Client {{ {PLAIN} required password=s3cret; }}", "ends with };"),
        (f"Client {{ {PLAIN} required password=s3cret }};", "each option is name=value"),
        ("Client { s3cret }", "a login module ends with ;"),
        ('Client { x required password="s3cret; };', "a quote is not closed"),
        ("/* Client { s3cret };", "each section is NAME"),
        ("Client { ; };", "begins with the class"),
        ("x" * 70_000, "too long"),
    ],
)
def test_a_file_that_is_none_is_refused_without_its_secrets(text, problem):
    with pytest.raises(ConfigError, match=problem) as refused:
        parse_login_file(text, "java.security.auth.login.config")
    assert "java.security.auth.login.config" in str(refused.value)
    assert "s3cret" not in str(refused.value)


def test_a_file_of_comments_has_no_section():
    assert parse_login_file("/* */ // x\n  /**/", "file") == {}
