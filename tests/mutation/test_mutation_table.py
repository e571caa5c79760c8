"""The table of planted bugs keeps up with the source: every entry still names text that is there, once."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from mutation_table import HERE, ROOT, Mutation, load


def _is_there(test):
    """Whether there is such a file, with a function of that name: pytest ends with an error without it, which
    would pass for a bug that was noticed.
    """
    file, _, name = test.partition("::")
    function = name.partition("[")[0].rpartition("::")[2]
    path = ROOT / file
    return path.exists() and (not function or f"def {function}(" in path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("folder", [path.stem for path in HERE.glob("*.toml")])
def test_each_planted_bug_has_a_place_in_the_source(folder):
    mutations = load([folder])

    assert mutations
    for mutation in mutations:
        assert mutation.mutated()
        assert mutation.why
        assert [name for name in mutation.tests if not _is_there(name)] == []
    # Two entries that plant one bug are one bug that is counted twice.
    assert len({(mutation.file, mutation.find, mutation.replace) for mutation in mutations}) == len(mutations)


def test_an_entry_whose_text_is_gone_is_refused():
    gone = Mutation("log", 1, "why", "src/barnabas/log/log.py", "text that is nowhere in the file", "")

    with pytest.raises(ValueError, match="occurs 0 times"):
        gone.mutated()


def test_an_entry_that_changes_only_a_comment_is_refused(tmp_path):
    (tmp_path / "module.py").write_text("x = 1  # one\n")

    with pytest.raises(ValueError, match="changes nothing"):
        Mutation("log", 1, "why", "module.py", "# one", "# two").check_that_it_changes_what_runs(tmp_path)
