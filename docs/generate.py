"""Fills the generated parts of docs (`make docs`): in compatibility.md the table that answers ApiVersions and
the differences that `make parity` lets pass, in logs.md the lines and the loggers that stand for Kafka's, in
architecture.md the stations of requests, in client-reference.md the options of the clients, and of those also
the types in src/barnabas/client/options.py. The pages broker-keys.md and errors.md are written whole.

A test compares the pages with what this would write, so that they cannot promise what the broker does not do.
"""

import re
import sys
from pathlib import Path

from barnabas.broker.handlers import api_table
from barnabas.broker.profiles import PROFILE_3_9, PROFILE_4_4, Profile
from barnabas.core.kafka_words import LOGGERS, WORDS

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS.parent))
sys.path.append(str(DOCS))

import client_options  # noqa: E402 - it stands in this folder
import reference_pages  # noqa: E402 - it stands in this folder
import stations  # noqa: E402 - it stands in this folder
from parity.allowed import table as parity_table  # noqa: E402 - it stands beside this folder
from parity.judges import JUDGES  # noqa: E402

PAGE = DOCS / "compatibility.md"
LOGS_PAGE = DOCS / "logs.md"
CLIENT_PAGE = DOCS / "client-reference.md"
OPTIONS_MODULE = DOCS.parent / "src" / "barnabas" / "client" / "options.py"
REFERENCE_PAGES = {
    DOCS / "broker-keys.md": reference_pages.keys_page,
    DOCS / "errors.md": reference_pages.errors_page,
}
"""The pages that are written whole, and by what."""
ARCHITECTURE_PAGE = DOCS / "architecture.md"
GENUINE = {PROFILE_3_9.name: "3.9.2", PROFILE_4_4.name: "4.4.0"}
"""The release whose answer stands for a profile."""
GOLDEN = DOCS.parent / "tests" / "golden"
_APIS = re.compile(r"(<!-- apis: .*? -->).*?(<!-- end of apis -->)", re.DOTALL)
_PARITY = re.compile(r"(<!-- parity (\S+): .*? -->).*?(<!-- end of parity -->)", re.DOTALL)


def genuine_versions(profile: Profile) -> dict[int, tuple[str, int, int]]:
    """Name and versions by key, as a genuine broker advertises them: 3.9.2 with ZooKeeper, or 4.4.0."""
    text = (GOLDEN / f"api-versions-{GENUINE[profile.name]}.txt").read_text()
    lines = re.findall(r"^(\w+)\((\d+)\): (\d+)(?: to (\d+))?$", text, re.MULTILINE)
    return {int(key): (name, int(low), int(high or low)) for name, key, low, high in lines}


def _cells(profile: Profile, key: int) -> str:
    """What a profile serves of an API, and what the genuine broker does."""
    api = api_table(profile).get(key)
    genuine = genuine_versions(profile).get(key)
    ours = f"{api.min_version}-{api.max_version}" if api is not None and api.advertised else "-"
    theirs = "-" if genuine is None else f"{genuine[1]}-{genuine[2]}"
    return f"{ours} | {'the same' if ours == theirs else theirs}"


def served_apis() -> str:
    """The APIs that are served in each profile, beside what genuine brokers serve, and the names of those
    that are missing.
    """
    profiles = (PROFILE_3_9, PROFILE_4_4)
    names = {key: each[0] for profile in profiles for key, each in genuine_versions(profile).items()}
    served = sorted({key for profile in profiles for key in api_table(profile)})
    rows = [
        f"| {key} | {names[key]} | {' | '.join(_cells(each, key) for each in profiles)} |" for key in served
    ]
    missing = ", ".join(name for key, name in sorted(names.items()) if key not in served)
    head = [
        "| key | API | profile 3.9 | Kafka 3.9.2 | profile 4.4 | Kafka 4.4.0 |",
        "|---|---|---|---|---|---|",
    ]
    return "\n".join([*head, *rows, "", f"Not served yet: {missing}."])


def page() -> str:
    """The whole page as it should be."""
    text = _APIS.sub(lambda found: f"{found[1]}\n{served_apis()}\n{found[2]}", PAGE.read_text())
    return _PARITY.sub(lambda found: f"{found[1]}\n{_differences(found[2])}\n{found[3]}", text)


def _differences(judge: str) -> str:
    return parity_table(judge, JUDGES[judge].allowed)


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


def client_page() -> str:
    """The page of the clients' options as it should be."""
    tables = client_options.tables()
    part = re.compile(r"(<!-- options: .*? -->).*?(<!-- end of options -->)", re.DOTALL)
    return part.sub(lambda found: f"{found[1]}\n{tables}\n{found[2]}", CLIENT_PAGE.read_text())


if __name__ == "__main__":
    PAGE.write_text(page())
    LOGS_PAGE.write_text(logs_page())
    ARCHITECTURE_PAGE.write_text(architecture_page())
    CLIENT_PAGE.write_text(client_page())
    OPTIONS_MODULE.write_text(client_options.options_module())
    for path, written in REFERENCE_PAGES.items():
        path.write_text(written())
