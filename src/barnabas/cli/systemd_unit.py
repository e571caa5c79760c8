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

from barnabas.core.broker_config import BROKER_CONFIG
from barnabas.core.config import ConfigType
from barnabas.node.service_manager import START_S

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
{start}
TimeoutStopSec=300
KillMode=mixed
LimitNOFILE=100000

[Install]
WantedBy=multi-user.target
"""


_START_OF_A_MACHINE: Final = """\
# A start takes what logs take after a crash; a machine that does not get on ends by itself.
TimeoutStartSec=infinity"""
_START_OF_A_BROKER: Final = f"""\
# A start takes what logs take after a crash: the broker asks for more time as long as it gets on.
TimeoutStartSec={START_S}"""


def unit_text(
    arguments: Sequence[str],
    data: Path | None,
    store: Path | None,
    config_file: Path | None,
    settings: Sequence[str],
    *,
    machine: bool,
) -> str:
    """The unit for ``barnabas`` with these arguments; `settings` are those of --set among them, `machine`
    says whether they are for several brokers. Raises UsageError where it would not find its files, or where
    everybody could read a secret in it.
    """
    secret = next((key for one in settings if _is_secret(key := one.partition("=")[0].strip())), None)
    if secret is not None:
        raise click.UsageError(
            f"{FLAG} would write {secret} into a unit that everybody may read: put the line {secret}=... into"
            " a file that only its user reads (chmod 600), and give that as --config with a whole path"
        )
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
    start = _START_OF_A_MACHINE if machine else _START_OF_A_BROKER
    return _UNIT.format(user=user, command=command, start=start)


def _is_secret(key: str) -> bool:
    """Whether a key, of the broker or of one listener, holds a password or a key."""
    if key in BROKER_CONFIG:
        return BROKER_CONFIG[key].type is ConfigType.PASSWORD
    names = (
        one.name for one in map(BROKER_CONFIG.__getitem__, BROKER_CONFIG) if one.type is ConfigType.PASSWORD
    )
    return key.endswith((".password", ".secret", *(f".{name}" for name in names)))
