"""The table of planted bugs: what each file of this folder says, checked against the source it names.

[[mutation]]
why = "acks=all is answered only beyond the batch's last offset"    what breaks, for the report
file = "src/barnabas/replica/produce.py"
find = "text that occurs once in that file"
replace = "the bug"
tests = ["tests/node/test_serve.py"]     optional: tests of other folders that belong to this code too
spark = true                             optional: those tests have the mark `spark`, and are run all the same
survives = "reason"                      optional: no test sees it, and why that is fine
"""

import ast
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent

_KEYS = {"why", "file", "find", "replace", "tests", "spark", "survives"}


@dataclass(frozen=True)
class Mutation:
    """One planted bug."""

    folder: str
    number: int
    why: str
    file: str
    find: str
    replace: str
    tests: tuple[str, ...] = field(default=())
    spark: bool = False
    survives: str | None = None

    @property
    def name(self) -> str:
        return f"{self.folder}-{self.number}"

    def mutated(self, root: Path = ROOT) -> str:
        """The source with the bug in it. Raises ValueError where the table and the source disagree."""
        path = root / self.file
        if not path.is_file():
            raise ValueError(f"{self.name}: there is no {self.file}")
        source = path.read_text(encoding="utf-8")
        found = source.count(self.find)
        if found != 1:
            raise ValueError(
                f"{self.name}: the text to find occurs {found} times in {self.file}, once is wanted"
            )
        return source.replace(self.find, self.replace)

    def check_that_it_changes_what_runs(self, root: Path = ROOT) -> None:
        """Raises ValueError for a mutation of comments, SyntaxError for one that is no Python. Of a template
        only that it differs can be said.
        """
        source = (root / self.file).read_text(encoding="utf-8")
        if not self.file.endswith(".py"):
            if source == self.mutated(root):
                raise ValueError(f"{self.name}: the mutation changes nothing")
            return
        if ast.dump(ast.parse(source)) == ast.dump(ast.parse(self.mutated(root))):
            raise ValueError(f"{self.name}: the mutation changes nothing that runs")


def load(folders: Iterable[str] = ()) -> list[Mutation]:
    """The mutations of these folders, of all if none is named.
    Raises ValueError for an unknown folder or key.
    """
    files = {path.stem: path for path in sorted(HERE.glob("*.toml"))}
    wanted = list(folders) or list(files)
    unknown = [folder for folder in wanted if folder not in files]
    if unknown:
        raise ValueError(f"no table for {', '.join(unknown)}; there are {', '.join(files)}")
    mutations = []
    for folder in wanted:
        entries = tomllib.loads(files[folder].read_text(encoding="utf-8")).get("mutation", [])
        for number, entry in enumerate(entries, 1):
            if strange := entry.keys() - _KEYS:
                raise ValueError(f"{folder}-{number}: unknown key {', '.join(sorted(strange))}")
            mutations.append(Mutation(folder, number, **{**entry, "tests": tuple(entry.get("tests", ()))}))
    return mutations
