"""Which flags of ``barnabas groups`` go together, in the words of kafka-consumer-groups.sh.

The checks stand in the order of ``ConsumerGroupCommandOptions.checkArgs``, since only the first failure is
printed.
"""

from collections.abc import Mapping
from typing import Any, Final

import click

from barnabas.cli.facts import refuse_json
from barnabas.cli.options import ToolError

Given = Mapping[str, Any]
"""What was given, by Kafka's names of the options; None, False or () for what was not."""

ACTIONS: Final = ("list", "describe", "delete", "reset-offsets", "delete-offsets", "validate-regex")
SCENARIOS: Final = (
    "to-offset",
    "to-current",
    "to-datetime",
    "from-file",
    "by-duration",
    "to-earliest",
    "to-latest",
    "shift-by",
)
_SCENARIOS_CHECKED: Final = (
    "to-offset",
    "to-datetime",
    "by-duration",
    "to-earliest",
    "to-latest",
    "to-current",
    "shift-by",
    "from-file",
)
_ONLY_WITH: Final = {
    "members": ("describe",),
    "verbose": ("describe",),
    "offsets": ("describe",),
    "state": ("describe", "list"),
    "type": ("list",),
}
_DRY_RUN_WARNING: Final = (
    "WARN: No action will be performed as the --execute option is missing."
    "In a future major release, the default behavior of this command will be to prompt the user before "
    "executing the reset rather than doing a dry run. You should add the --dry-run option explicitly "
    "if you are scripting this command and want to keep the current default behavior without prompting."
)


def has(given: Given, option: str) -> bool:
    """Whether the option was given; one with an optional value also without it."""
    return given[option] not in (None, False, ())


def wrong_use(message: str) -> ToolError:
    """What ends the command as Kafka's script does on a wrong use: the message on stderr, exit code 1."""
    return ToolError(f"{message}\nSee barnabas groups --help for the options, with examples.")


def check(given: Given) -> None:
    """Raises ToolError when the flags do not go together; warns of a dry run that was not asked for."""
    for option, actions in _ONLY_WITH.items():
        if has(given, option) and not any(has(given, action) for action in actions):
            raise wrong_use(f"Option(s) [{option}] are unavailable given other options on the command line")
    if not has(given, "bootstrap-server") and not has(given, "validate-regex"):
        raise wrong_use('Missing required argument "[bootstrap-server]"')
    refuse_json(given, "list", "describe")
    _check_describe(given)
    _check_delete(given)
    _check_reset(given)
    _refuse_together(given, "group", "all-groups")
    _refuse_together(given, "group", "list")
    _refuse_together(given, "topic", "list")
    _refuse_together(given, "topic", "describe")
    if sum(has(given, action) for action in ACTIONS) != 1:
        raise wrong_use(
            f"Command must include exactly one action: {', '.join(f'--{one}' for one in ACTIONS)}"
        )


def _names_groups(given: Given) -> bool:
    return has(given, "group") or has(given, "all-groups")


def _check_describe(given: Given) -> None:
    if not has(given, "describe"):
        return
    if not _names_groups(given):
        raise wrong_use(
            "Option [describe] takes one of these options: [reset-offsets], [describe], [delete], [list]"
        )
    if sum(has(given, option) for option in ("members", "offsets", "state")) > 1:
        raise wrong_use("Option [describe] takes at most one of these options: [members], [offsets], [state]")
    if given["state"]:
        raise wrong_use("Option [describe] does not take a value for [state]")


def _check_delete(given: Given) -> None:
    if has(given, "delete") and not _names_groups(given):
        raise wrong_use("Option [delete] takes one of these options: [all-groups], [group]")
    if has(given, "delete") and has(given, "topic"):
        raise wrong_use("The consumer does not support topic-specific offset deletion from a consumer group.")
    if has(given, "delete-offsets") and not (has(given, "group") and has(given, "topic")):
        raise wrong_use("Option [delete-offsets] takes the following options: [all-groups], [group]")


def _check_reset(given: Given) -> None:
    if not has(given, "reset-offsets"):
        return
    if has(given, "dry-run") and has(given, "execute"):
        raise wrong_use("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
    if not has(given, "dry-run") and not has(given, "execute"):
        click.echo(_DRY_RUN_WARNING, err=True)
    if not _names_groups(given):
        raise wrong_use("Option [reset-offsets] takes one of these options: [all-groups], [group]")
    for option in _SCENARIOS_CHECKED:
        for other in SCENARIOS:
            if other != option:
                _refuse_together(given, option, other)


def _refuse_together(given: Given, option: str, other: str) -> None:
    if has(given, option) and has(given, other):
        raise wrong_use(f'Option "[{option}]" can\'t be used with option "[{other}]"')
