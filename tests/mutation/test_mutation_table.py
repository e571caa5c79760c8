"""The table of planted bugs keeps up with the source: every entry still names text that is there, once."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from mutation_table import Mutation, load


@pytest.mark.parametrize("mutation", load(), ids=lambda mutation: mutation.name)
def test_a_planted_bug_has_a_place_in_the_source(mutation: Mutation):
    assert mutation.mutated()
    assert mutation.why


def test_an_entry_whose_text_is_gone_is_refused():
    gone = Mutation("log", 1, "why", "src/barnabas/log/log.py", "text that is nowhere in the file", "")

    with pytest.raises(ValueError, match="occurs 0 times"):
        gone.mutated()


def test_an_entry_that_changes_only_a_comment_is_refused(tmp_path):
    (tmp_path / "module.py").write_text("x = 1  # one\n")

    with pytest.raises(ValueError, match="changes nothing"):
        Mutation("log", 1, "why", "module.py", "# one", "# two").mutated(tmp_path)
