"""The commands of docs/security-first-steps.md, run as they stand there: what is printed is what it
shows, and what it says of the files is so.
"""

import re
import stat
from pathlib import Path

import pytest

from serving import free_port

PAGE = (Path(__file__).parents[2] / "docs" / "security-first-steps.md").read_text()


def steps(port):
    """Each command of the page with the lines that are shown below it, on another port."""
    text = PAGE.replace("9092", str(port)).replace("./data &", f"./data --port {port} &")
    for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL):
        for step in block.split("$ ")[1:]:
            command, *shown = step.splitlines()
            yield command, [line.rstrip() for line in shown if line.strip()]


@pytest.mark.timeout(240)
def test_from_nothing_to_tls_scram_and_rules(shell, tmp_path):
    commands = list(steps(free_port()))
    assert len(commands) == 5 + 3 + 5
    for number, (command, shown) in enumerate(commands):
        told = f"done-{number}"
        if command.endswith("&"):
            printed = shell(command, until="^Connect with")
        else:
            printed = shell(command, f"echo {told}", until=f"^{told}$")
        for line in shown:
            assert line in printed, f"{command}\n{printed[-3000:]}"
    data = tmp_path / "data"
    for name in ("client.properties", "ca.pem", "ca.key", "broker.pem", "broker.properties"):
        assert f"| `{name}` |" in PAGE
        assert stat.S_IMODE((data / name).stat().st_mode) == 0o600
    assert stat.S_IMODE(data.stat().st_mode) == 0o700
    for user in ("alice", "bob"):
        assert stat.S_IMODE((tmp_path / f"{user}.properties").stat().st_mode) == 0o600
