"""The grammar of one line of JAAS."""

import pytest

from barnabas.core.errors import ConfigError
from barnabas.core.jaas import parse_jaas

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
