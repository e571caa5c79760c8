"""The stations of docs/articles, the places of the glossary and the tests of faults are where the pages say
that they are.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.coordinator.runtime.keys import partition_of
from barnabas.core.ids import java_hash

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [
    *sorted((DOCS / "articles").glob("*.md")),
    *(
        DOCS / f"{name}.md"
        for name in ("architecture", "glossary", "faults", "wire", "onboarding", "recipes")
    ),
]
STATION = re.compile(r"`([\w/]+\.py)`(?: `([\w.]+)`)?")


def defined_in(path: Path) -> set[str]:
    """The names of a module's classes, methods, functions and constants."""
    names: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            methods = (each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))
            names.update(f"{node.name}.{method.name}" for method in methods)
    return names


def missing_stations(page: str) -> Iterator[str]:
    for path, name in STATION.findall(page):
        if path.startswith("tests/"):
            continue  # `missing_tests` looks for those
        file = ROOT / "src" / "barnabas" / path
        if not file.exists() or (name and name not in defined_in(file)):
            yield f"{path} {name}"


TEST = re.compile(r"`(tests/[\w/]+\.py)` `(test_\w+)`")


def missing_tests(page: str) -> Iterator[str]:
    for path, name in TEST.findall(page):
        file = ROOT / path
        if not file.exists() or name not in defined_in(file):
            yield f"{path} {name}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_test_that_is_named_is_there(page: Path) -> None:
    assert list(missing_tests(page.read_text())) == []


def test_a_test_that_is_not_there_is_found() -> None:
    assert list(missing_tests("`tests/docs/test_articles.py` `test_nothing`")) == [
        "tests/docs/test_articles.py test_nothing"
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_station_is_there(page: Path) -> None:
    assert list(missing_stations(page.read_text())) == []


def test_a_station_that_is_not_there_is_found() -> None:
    page = "`core/ids.py` `java_hash`, `core/ids.py` `python_hash`, `core/nowhere.py`"
    assert list(missing_stations(page)) == ["core/ids.py python_hash", "core/nowhere.py "]


def test_the_pages_name_stations() -> None:
    assert sum(len(STATION.findall(page.read_text())) for page in PAGES) > 40


def test_the_example_is_worked_out_right() -> None:
    page = (ROOT / "docs" / "articles" / "find-coordinator.md").read_text()
    assert f"has the hash {java_hash('consume_group')} " in page
    assert f"% 50 = {partition_of('consume_group', 50)}." in page
