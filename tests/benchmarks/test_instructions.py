"""`python -m bench.instructions`: what it reads out of callgrind's file, and a count of the floor's own."""

import shutil

import pytest
from bench import instructions
from bench.sides import Trees

DUMP = """\
version: 1
events: Ir

ob=(1) /usr/bin/broker
fl=(1) broker.c
fn=(1) main
10 5
+2 3
calls=2 20
11 900
fn=(2) append'2
fi=(2) other.c
20 300
fe=(1)
* 40
cfn=(3) crc
calls=7 90
21 560

fn=(3)
90 560

fn=(1)
-1 2
totals: 1810
summary: 910
"""


def test_a_function_has_its_own_cost_and_none_of_what_it_calls(tmp_path):
    file = tmp_path / "callgrind.1"
    file.write_text(DUMP)

    count = instructions.read_dump(file, 10)

    assert dict(count.functions) == {"main": 10, "append": 340, "crc": 560}
    assert (count.requests, count.instructions) == (10, 910)


@pytest.mark.skipif(
    shutil.which("valgrind") is None or shutil.which("cc") is None, reason="needs valgrind and a C compiler"
)
def test_the_floor_takes_as_many_instructions_each_time():
    first, again = (
        next(instructions.counts(["floor"], ["many"], Trees(), instructions.QUICK))[2] for _ in range(2)
    )

    assert 0.98 < first.instructions / again.instructions < 1.02
    assert first.functions["main"] > 0
