"""What the documents promise and the code does are the same thing."""

import importlib.util
import re
import tomllib
from pathlib import Path

import pytest
from parity.scenarios import SCENARIOS

from barnabas.broker.profiles import PROFILE_3_9, PROFILE_4_4

ROOT = Path(__file__).parent.parent.parent


def load(name, place):
    spec = importlib.util.spec_from_file_location(name, place)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def load_generator():
    return load("docs_generate", ROOT / "docs" / "generate.py")


def test_the_compatibility_page_is_the_table_of_handlers():
    generate = load_generator()

    assert generate.page() == generate.PAGE.read_text(), "run `make docs`"


def _rows(text):
    """The first cell of each row of a table, and the row."""
    rows = [line for line in text.splitlines() if line.startswith("| ")][1:]
    return [(row.strip("| ").split(" | ")[0], row) for row in rows]


def test_every_difference_from_kafka_names_the_test_or_the_comparison_that_shows_it():
    page = (ROOT / "docs" / "compatibility.md").read_text()
    differences, _, shown = page.partition("## Known differences")[2].partition("### What shows them")
    rows = dict(_rows(differences))
    shows = dict(_rows(shown.partition("### Answer by answer")[0]))
    assert len(rows) > 30
    assert rows.keys() == shows.keys(), "each row of the one table has a row in the other"
    for where, shown_by in shows.items():
        names = re.findall(r"`([\w/]+\.py)::(\w+)`", shown_by)
        scenarios = re.findall(r"parity: ([a-z ]+?)(?: [/|]|,)", shown_by)
        assert names or scenarios, f"{where}: nothing shows it"
        for file, test in names:
            assert re.search(rf"def {test}\b", (ROOT / "tests" / file).read_text()), f"{file} has no {test}"
        assert set(scenarios) <= set(SCENARIOS), where


def test_the_page_of_the_logs_is_the_table_of_kafkas_words():
    generate = load_generator()

    assert generate.logs_page() == generate.LOGS_PAGE.read_text(), "run `make docs`"


def test_the_head_of_a_handler_has_each_of_its_parts_on_a_line_of_its_own():
    heading = re.compile(r"(?:Behaviour|Versions|Limit|Repeats|Order|Not implemented): ")
    for file in sorted((ROOT / "src/barnabas/broker/handlers").glob("[!_]*.py")):
        head = file.read_text().split('"""')[1]
        lines = head.splitlines()
        assert any(line.startswith("Behaviour: ") for line in lines), file.name
        parts = [line for line in lines if heading.match(line)]
        assert len(parts) == len(heading.findall(head)), f"{file.name}: a heading is in the middle of a line"


def test_each_station_of_the_walks_is_where_the_page_says():
    generate = load_generator()

    assert generate.stations.missing() == []
    assert generate.architecture_page() == generate.ARCHITECTURE_PAGE.read_text(), "run `make docs`"


def test_every_byte_of_the_request_that_is_drawn_belongs_to_a_field():
    wire = load("docs_wire", ROOT / "docs" / "wire.py")

    assert wire.page() == wire.PAGE.read_text(), "run `make docs`"


@pytest.mark.parametrize("profile", [PROFILE_3_9, PROFILE_4_4], ids=lambda each: each.name)
def test_no_api_is_advertised_beyond_what_kafka_does(profile):
    generate = load_generator()
    genuine = generate.genuine_versions(profile)

    for key, api in generate.api_table(profile).items():
        if api.advertised:
            _, low, high = genuine[key]
            assert low <= api.min_version <= api.max_version <= high, api
            assert api.max_version == high or profile is PROFILE_4_4, api


def test_every_dependency_earns_its_place_in_writing():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [
        *project["dependencies"],
        *(one for extra in project["optional-dependencies"].values() for one in extra),
    ]
    names = {re.split(r"[\[<>=]", requirement)[0] for requirement in wanted} - {"barnabas"}
    argued = (ROOT / "docs" / "decisions" / "0002-dependencies.md").read_text()

    assert {name for name in names if f"`{name}`" not in argued} == set()


def test_links_between_documents_lead_somewhere():
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    broken = [
        (page.name, target)
        for page in pages
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())
        if not (page.parent / target).exists()
    ]

    assert broken == []


def test_each_decision_has_a_number_of_its_own_in_its_name_and_in_its_title():
    pages = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    numbers = [page.name[:4] for page in pages]

    assert [number for number in numbers if numbers.count(number) > 1] == []
    titles = {page.name: page.read_text().partition("\n")[0] for page in pages}
    assert {name: title for name, title in titles.items() if not title.startswith(f"# {name[:4]} · ")} == {}


def test_the_check_without_java_knows_the_blocks_of_the_spark_page():
    check = load("empty_environment", Path(__file__).with_name("empty_environment.py"))
    text = check.program(bootstrap="broker:1", data="/here/data", out="/here/out")

    compile(text, "docs/spark.md", "exec")
    assert not [place for place in check.PUT_IN if place in text]


def test_the_page_and_the_types_of_the_clients_options_are_their_table():
    generate = load_generator()

    assert generate.client_page() == generate.CLIENT_PAGE.read_text(), "run `make docs`"
    written = generate.client_options.options_module()
    assert written == generate.OPTIONS_MODULE.read_text(), "run `make docs`"


def test_the_pages_of_keys_and_errors_are_their_tables():
    for path, written in load_generator().REFERENCE_PAGES.items():
        assert path.read_text() == written(), "run `make docs`"
