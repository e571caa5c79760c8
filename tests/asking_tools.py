"""Which commands ask brokers, by their own options: a test of all such tools leaves none out."""

import click

from barnabas.cli.main import COMMANDS, cli


def asking_tools() -> set[str]:
    """The commands with ``--bootstrap-server``, of their own or of one of their subcommands."""
    asking = set()
    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        commands = command.commands.values() if isinstance(command, click.Group) else [command]
        if any(
            "--bootstrap-server" in option.opts for each in [command, *commands] for option in each.params
        ):
            asking.add(name)
    return asking
