"""Draws small bugs from the source itself, plants them, and tells by folder how many the tests see.

    python tests/mutation/draw.py FOLDER [FOLDER ...] --number 30 [--seed S] [--entries FILE]

A folder is one of src/barnabas, like `replica` or `coordinator/consumer`. The bugs are of four kinds: a
comparison is swapped, a condition is dropped, a statement is removed, a number is off by one. Survivors are
printed; `--entries` writes them down as entries for the tables of this folder, where each gets a test or its
reason.
"""

import argparse
import ast
import copy
import os
import random
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from mutation_table import ROOT
from planting import judge_all

_SWAPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}


@dataclass(frozen=True)
class Drawn:
    """One bug: what stands between two places of a file, and what to put there."""

    folder: str
    file: str
    line: int
    begin: int
    end: int
    replacement: str
    tests: tuple[str, ...] = ()
    spark: bool = False

    def mutated(self) -> str:
        """The source with the bug in it."""
        source = self._source()
        return source[: self.begin] + self.replacement + source[self.end :]

    def entry(self) -> str:
        """This bug as an entry of a table, with as many lines before it as make its text unique."""
        source = self._source()
        begin = source.rfind("\n", 0, self.begin) + 1
        end = source.find("\n", self.end)
        while source.count(source[begin:end]) > 1 and begin:
            begin = source.rfind("\n", 0, begin - 1) + 1
        mutated = source[begin : self.begin] + self.replacement + source[self.end : end]
        texts = (f"'''\n{text}\n'''" for text in (source[begin:end], mutated))
        found, replaced = texts
        return f'[[mutation]]\nwhy = ""\nfile = "{self.file}"\nfind = {found}\nreplace = {replaced}\n'

    def __str__(self) -> str:
        before = " ".join(self._source()[self.begin : self.end].split())
        return f"{self.file}:{self.line}: {before}  ->  {self.replacement}"

    def _source(self) -> str:
        return (ROOT / self.file).read_text(encoding="utf-8")


def main() -> int:
    """Draws, plants and reports; the exit code is 1 when fewer than nine in ten are killed somewhere."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="+", metavar="FOLDER")
    parser.add_argument("--number", type=int, default=30, metavar="N", help="bugs a folder (default 30)")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="of the draw (default 1)")
    parser.add_argument("--entries", type=Path, metavar="FILE", help="write survivors down for the tables")
    parser.add_argument("--simulation-seeds", type=int, default=60, metavar="N", help="0 leaves it out")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N")
    parser.add_argument("--list", action="store_true", help="only show what is drawn")
    options = parser.parse_args()
    drawn = [bug for folder in options.folders for bug in draw(folder, options.number, options.seed)]
    if options.list:
        print(*drawn, sep="\n")
        return 0
    killed: Counter[str] = Counter()
    survivors: list[Drawn] = []

    def report(bug: Drawn, killer: str | None) -> None:
        killed[_scope(bug, options.folders)] += killer is not None
        print(f"{bug}: {f'killed by {killer}' if killer else 'SURVIVES'}", flush=True)
        if killer is None:
            survivors.append(bug)
            if options.entries is not None:
                with options.entries.open("a", encoding="utf-8") as file:
                    file.write(bug.entry() + "\n")

    judge_all(drawn, report, jobs=options.jobs, simulation_seeds=options.simulation_seeds)
    drawn_in = Counter(_scope(bug, options.folders) for bug in drawn)
    for folder in options.folders:
        print(f"{folder}: {killed[folder]} of {drawn_in[folder]} killed")
    print(*survivors, sep="\n")
    return int(any(10 * killed[folder] < 9 * drawn_in[folder] for folder in options.folders))


def _scope(bug: Drawn, folders: list[str]) -> str:
    return max((each for each in folders if bug.file.startswith(f"src/barnabas/{each}/")), key=len)


def draw(folder: str, number: int, seed: int) -> list[Drawn]:
    """So many bugs of a folder, the same ones for the same seed and source."""
    files = sorted((ROOT / "src/barnabas" / folder).rglob("*.py"))
    found = [bug for path in files for bug in _bugs(folder.partition("/")[0], path)]
    return random.Random(seed).sample(found, min(number, len(found)))


def _bugs(table: str, path: Path) -> Iterator[Drawn]:
    source = path.read_text(encoding="utf-8")
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line.encode()))
    data = source.encode()

    def place(line: int, column: int) -> int:
        return len(data[: starts[line - 1] + column].decode())

    for node, replacement in _changes(ast.parse(source)):
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        begin, end = place(node.lineno, node.col_offset), place(node.end_lineno, node.end_col_offset)
        bug = Drawn(table, str(path.relative_to(ROOT)), node.lineno, begin, end, replacement)
        try:
            if ast.dump(ast.parse(bug.mutated())) != ast.dump(ast.parse(source)):
                yield bug
        except SyntaxError:
            continue


def _changes(node: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    """What can be changed below a node, and into what. What only people read is left alone: reprs, log lines,
    messages of errors, assertions, annotations.
    """
    for child in ast.iter_child_nodes(node):
        if _is_for_people(child):
            continue
        if isinstance(child, ast.stmt):
            if _can_go(child):
                yield child, "pass"
        elif isinstance(child, ast.expr):
            yield from ((child, text) for text in _changed(child))
        if isinstance(child, ast.AnnAssign):
            if child.value is not None:
                yield from _changes(ast.Expr(child.value))
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _changes(ast.Module(child.body, []))
        else:
            yield from _changes(child)


def _is_for_people(node: ast.AST) -> bool:
    match node:
        case ast.FunctionDef(name="__repr__" | "__str__") | ast.Assert() | ast.Raise() | ast.JoinedStr():
            return True
        case ast.Expr(value=ast.Constant()) | ast.Import() | ast.ImportFrom():
            return True
        case ast.Call(func=ast.Attribute(value=ast.Name(id="_log"))):
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="_log")))):
            return True
        case ast.Assign(targets=[ast.Name(id="__slots__")]):
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
    return False


def _can_go(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(value=ast.Call() | ast.Yield() | ast.YieldFrom() | ast.Await()):
            return True
        case ast.AugAssign() | ast.Delete():
            return True
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript(), *_]):
            return True
        case ast.Return(value=None) | ast.Continue() | ast.Break():
            return True
    return False


def _changed(expression: ast.expr) -> Iterator[str]:
    match expression:
        case ast.Compare(ops=[operator]) if type(operator) in _SWAPPED:
            swapped = copy.copy(expression)
            swapped.ops = [_SWAPPED[type(operator)]()]
            yield ast.unparse(swapped)
        case ast.BoolOp(values=values):
            for dropped in values:
                kept = [each for each in values if each is not dropped]
                text = ast.unparse(kept[0] if len(kept) == 1 else ast.BoolOp(expression.op, kept))
                yield f"({text})"
        case ast.UnaryOp(op=ast.Not()):
            yield f"bool({ast.unparse(expression.operand)})"
        case ast.Constant(value=int() as number) if not isinstance(number, bool):
            yield str(number + 1)


if __name__ == "__main__":
    sys.exit(main())
