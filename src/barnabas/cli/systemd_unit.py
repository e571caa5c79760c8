"""``barnabas serve --systemd``: a unit that runs this very command, for the user who asks."""

import getpass
import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

FLAG: Final = "--systemd"
# deploy/barnabas.service is the same for a user and a folder of its own.
_UNIT: Final = """\
[Unit]
Description=Barnabas: Kafka brokers
After=network-online.target
Wants=network-online.target

[Service]
Type=notify
NotifyAccess=main
User={user}
ExecStart={command}
Restart=on-failure
RestartSec=2
WatchdogSec=30
TimeoutStartSec=180
TimeoutStopSec=300
KillMode=mixed
LimitNOFILE=100000

[Install]
WantedBy=multi-user.target
"""


def unit_text(
    arguments: Sequence[str], data: Path | None, store: Path | None, config_file: Path | None
) -> str:
    """The unit for ``barnabas`` with these arguments. Raises UsageError where it would not find its files."""
    if data is None:
        raise click.UsageError(f"{FLAG} needs --data with a whole path: a unit is started in /")
    for option, path in (("--data", data), ("--store", store), ("--config", config_file)):
        if path is not None and not path.is_absolute():
            raise click.UsageError(f"{FLAG} needs {option} with a whole path: a unit is started in /")
    program = shutil.which("barnabas")
    words = [program] if program else [sys.executable, "-m", "barnabas"]
    words += [each for each in arguments if each != FLAG]
    # systemd expands % and $ in the line.
    command = shlex.join(words).replace("%", "%%").replace("$", "$$")
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # one without a name, as in a container
        user = str(os.getuid())
    return _UNIT.format(user=user, command=command)
