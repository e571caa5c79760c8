"""README's three brokers start and outlive a kill as its lines stand there; its test passes."""

import contextlib
import re
import socket
from pathlib import Path

import pytest

from serving import free_port

README = (Path(__file__).parents[2] / "README.md").read_text()


def commands(after: str) -> list[str]:
    """The lines behind `$ ` of the first block after these words."""
    block = README.partition(after)[2].partition("```console\n")[2].partition("```")[0]
    return [line[2:] for line in block.splitlines() if line.startswith("$ ")]


def free_prefix() -> str:
    """What three ports that are free begin with: the README's end in 1, 2 and 3."""
    while True:
        prefix = free_port() // 10
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            for last in (1, 2, 3):
                stack.enter_context(socket.create_server(("127.0.0.1", prefix * 10 + last)))
            return str(prefix)


@pytest.mark.timeout(240)
def test_three_brokers_start_as_the_readme_says_and_any_may_be_killed(shell):
    lines = commands("Three brokers on one machine")
    prefix = free_prefix()  # so that a broker of somebody else on 19091 is in nobody's way
    start, kafka, create, get = (line.replace("1909", prefix) for line in lines)

    shell(start, until=r"^ready PLAINTEXT://127.0.0.1:\d+ broker=[123]", times=3)
    shell(kafka, create, until=r"^Created topic copied\.$")
    shell(get, until=r'^  "leader_epoch": 0,$')
    shell(
        "barnabas topics $kafka --describe --topic copied",
        until=r"Replicas: (\d,){2}\d\tIsr: (\d,){2}\d",
        times=3,
    )
    shell(
        "echo 'ada:hello' | barnabas produce $kafka --topic copied --key-separator : "
        "--command-property acks=all && echo produced",
        until="^produced$",
    )
    shell(
        "kill -9 $! && barnabas consume $kafka --topic copied --from-beginning --max-messages 1",
        until="^hello$",
    )


def test_the_test_of_the_readme_passes_as_it_stands(passes):
    (block,) = (one for one in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if "def test_" in one)
    passes(block)
