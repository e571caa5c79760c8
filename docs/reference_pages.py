"""The pages of reference that are tables of the code and nothing else: the keys of brokers, topics and groups
(docs/broker-keys.md), and the errors (docs/errors.md).
"""

from typing import Final

from barnabas import client
from barnabas.core.broker_config import BROKER_CONFIG
from barnabas.core.config import ConfigKey, ConfigTable, config_text
from barnabas.core.errors import BarnabasError, ErrorCode
from barnabas.core.group_config import GROUP_CONFIG
from barnabas.core.topic_config import TOPIC_CONFIG

_KEYS_HEAD: Final = """# Keys of brokers, topics and groups
Written by `make docs` out of the tables that the broker parses. A broker reads its keys from `--config FILE`
and `--set KEY=VALUE`; `barnabas serve --list-config WORD` shows those with a word in their name. What changes
while a broker runs says `per-broker` or `cluster-wide`, and is set by `barnabas configs`. A key that is not
obeyed is accepted, so that the file of an Apache Kafka broker can be read, and says why. Keys of topics and
groups have a broker's key for what is not set.
"""
_ERRORS_HEAD: Final = """# Errors
Written by `make docs` out of the code. All errors of the clients, the tools and the broker's start are a
`barnabas.core.errors.BarnabasError`, whose text is one line for a person.
"""


def keys_page() -> str:
    """The keys of brokers, of topics and of groups."""
    parts = [
        _KEYS_HEAD.rstrip(),
        _keys("Brokers", BROKER_CONFIG),
        _keys("Topics", TOPIC_CONFIG),
        _keys("Groups", GROUP_CONFIG),
    ]
    return "\n\n".join(parts) + "\n"


def _keys(title: str, table: ConfigTable) -> str:
    head = [f"## {title}", "| key | type | default | scope | what it does |", "|---|---|---|---|---|"]
    return "\n".join([*head, *(_key(key) for _, key in sorted(table.items()))])


def _key(key: ConfigKey) -> str:
    default = config_text(key, key.default)
    shown = "" if default is None else f"`{default}`" if default else "empty"
    where = key.scope.value if key.synonym is None else f"default of `{key.synonym}`"
    text = key.doc if key.not_obeyed is None else f"Not obeyed: {key.not_obeyed}"
    return _row(f"`{key.name}`", key.type.name.lower(), shown, where, text)


def errors_page() -> str:
    """What the clients raise, and the codes of the protocol."""
    classes = [getattr(client, name) for name in client.__all__]
    raised = [each for each in classes if isinstance(each, type) and issubclass(each, BarnabasError)]
    rows = [
        _row(f"`{each.__name__}`", f"`{each.__mro__[1].__name__}`", _first_paragraph(each.__doc__ or ""))
        for each in sorted(raised, key=lambda each: each.__name__)
    ]
    codes = [
        _row(str(int(code)), f"`{code.name}`", "yes" if code.retriable else "", code.message)
        for code in sorted(ErrorCode)
    ]
    return "\n".join(
        [
            _ERRORS_HEAD,
            "## What the clients raise",
            "Import them from `barnabas.client`.",
            "",
            "| error | is a | when |",
            "|---|---|---|",
            *rows,
            "",
            "## Codes of the protocol",
            "`KafkaError.code` is one of these. Where it helps to ask again the clients do so, as long as",
            "their time-outs allow it.",
            "",
            "| code | name | again? | text |",
            "|---|---|---|---|",
            *codes,
            "",
        ]
    )


def _first_paragraph(text: str) -> str:
    return " ".join(text.partition("\n\n")[0].split())


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
