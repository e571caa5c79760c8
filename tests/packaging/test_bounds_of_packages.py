"""The bounds of packages in pyproject.toml: heavy ones have two, and `make bounds` knows all of them."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAVY = {
    "bokeh",
    "deltalake",
    "fastavro",
    "numba",
    "numpy",
    "pandas",
    "protobuf",
    "pyarrow",
    "pyiceberg",
    "pyspark",
}


@pytest.fixture(scope="module")
def bounds():
    spec = importlib.util.spec_from_file_location("bounds", ROOT / ".ci" / "bounds.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_heavy_packages_are_bounded_at_both_ends(bounds):
    named = [(name, given) for name, given in bounds.requirements(ROOT, "dev") if name in HEAVY]
    assert {name for name, _ in named} == HEAVY
    for name, given in named:
        assert re.fullmatch(r">=[\d.]+,<\d+", given), (name, given)


def test_every_package_has_a_lower_bound(bounds):
    without = [name for name, given in bounds.requirements(ROOT, "dev") if not given.startswith((">=", "=="))]
    assert without == []


def test_the_extras_of_an_extra_are_followed(bounds, tmp_path):
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "p"\ndependencies = ["one>=1"]\n'
        '[project.optional-dependencies]\nbig = ["p[small]", "two[x,y]>=2,<3"]\nsmall = ["three==3"]\n'
        'other = ["four"]\n'
    )
    assert sorted(bounds.requirements(tmp_path, "big")) == [
        ("one", ">=1"),
        ("three", "==3"),
        ("two", ">=2,<3"),
    ]


def test_the_tests_of_the_ends_are_there(bounds):
    assert [one for one in bounds.TESTS if not (ROOT / one).exists()] == []
