"""Fills the generated parts of docs (`make docs`): in compatibility.md the table that answers ApiVersions and
the differences that `make parity` lets pass, in logs.md the lines and the loggers that stand for Kafka's, in
architecture.md the stations of requests.

A test compares the pages with what this would write, so that they cannot promise what the broker does not do.
"""

import re
import sys
from pathlib import Path

from barnabas.broker.handlers import api_table
from barnabas.broker.registry import Api
from barnabas.core.kafka_words import LOGGERS, WORDS

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS.parent))
sys.path.append(str(DOCS))

import stations  # noqa: E402 - it stands in this folder
from parity.allowed import table as parity_table  # noqa: E402 - it stands beside this folder

PAGE = DOCS / "compatibility.md"
LOGS_PAGE = DOCS / "logs.md"
ARCHITECTURE_PAGE = DOCS / "architecture.md"
GENUINE = DOCS.parent / "tests" / "golden" / "api-versions-3.9.2.txt"
_APIS = re.compile(r"(<!-- apis: .*? -->).*?(<!-- end of apis -->)", re.DOTALL)
_PARITY = re.compile(r"(<!-- parity: .*? -->).*?(<!-- end of parity -->)", re.DOTALL)


def genuine_versions() -> dict[int, tuple[str, int, int]]:
    """Name and versions by key, as a Kafka 3.9.2 broker in ZooKeeper mode advertises them."""
    lines = re.findall(r"^(\w+)\((\d+)\): (\d+)(?: to (\d+))?$", GENUINE.read_text(), re.MULTILINE)
    return {int(key): (name, int(low), int(high or low)) for name, key, low, high in lines}


def _row(api: Api, name: str, low: int, high: int) -> str:
    same = (api.min_version, api.max_version) == (low, high)
    ours = f"{api.min_version}-{api.max_version}"
    return f"| {int(api.key)} | {name} | {ours} | {'the same' if same else f'{low}-{high}'} |"


def served_apis() -> str:
    """The APIs that are served, beside what Kafka 3.9 serves, and the names of those that are missing."""
    genuine = genuine_versions()
    table = api_table()
    rows = [_row(table[key], *genuine[key]) for key in table]
    missing = ", ".join(name for key, (name, _, _) in genuine.items() if key not in table)
    head = ["| key | API | versions | Kafka 3.9.2 |", "|---|---|---|---|"]
    return "\n".join([*head, *rows, "", f"Not served yet: {missing}."])


def page() -> str:
    """The whole page as it should be."""
    text = _APIS.sub(lambda found: f"{found[1]}\n{served_apis()}\n{found[2]}", PAGE.read_text())
    return _PARITY.sub(lambda found: f"{found[1]}\n{parity_table()}\n{found[2]}", text)


def logs_page() -> str:
    """The page of the log lines as it should be."""
    lines = [f"| `{event}` | {words} |".replace("{me}", "N") for event, words in WORDS.items()]
    loggers = [f"| `barnabas.{part}` | `{logger}` |" for part, logger in LOGGERS.items()]
    tables = {
        "words": ["| our event | the line |", "|---|---|", *lines],
        "loggers": ["| our logger | Kafka's |", "|---|---|", *loggers],
    }
    text = LOGS_PAGE.read_text()
    for name, rows in tables.items():
        part = re.compile(rf"(<!-- {name}: .*? -->).*?(<!-- end of {name} -->)", re.DOTALL)
        text = part.sub(lambda found, rows=rows: "\n".join([found[1], *rows, found[2]]), text)
    return text


def architecture_page() -> str:
    """The page of the architecture as it should be. Raises ValueError where a station is not there."""
    if gone := stations.missing():
        raise ValueError(f"docs/stations.py names what is not there: {', '.join(gone)}")
    part = re.compile(r"(<!-- stations: .*? -->).*?(<!-- end of stations -->)", re.DOTALL)
    text = ARCHITECTURE_PAGE.read_text()
    return part.sub(lambda found: f"{found[1]}\n{stations.tables()}\n{found[2]}", text)


if __name__ == "__main__":
    PAGE.write_text(page())
    LOGS_PAGE.write_text(logs_page())
    ARCHITECTURE_PAGE.write_text(architecture_page())
