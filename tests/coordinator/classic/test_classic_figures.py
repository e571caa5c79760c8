"""The figures in the documentation are those that the code's tables give."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def figures():
    spec = importlib.util.spec_from_file_location("docs_figures", ROOT / "docs" / "figures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_page_shows_its_figures_as_the_tables_are(figures):
    pages = list(figures.pages())

    assert ROOT / "docs" / "groups.md" in pages
    assert [page for page in pages if figures.drawn(page.read_text()) != page.read_text()] == [], (
        "run `make docs`"
    )


def test_the_states_of_a_group_are_drawn_with_their_ways(figures):
    drawn = figures.classic_group_states().splitlines()

    assert "    Empty --> PreparingRebalance : a member joins" in drawn
    assert "    CompletingRebalance --> Stable : the leader's assignment is written" in drawn
    assert not any(line.startswith("    Empty --> Stable") for line in drawn)
