"""Regular expressions that clients send: RE2's, whose matching takes linear time.

Its module is loaded when the first expression comes.
"""

from typing import Any, Final

_JAVA_MISTAKES: Final = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "trailing \\": "trailing backslash at end of expression",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
}
"""What RE2 calls a mistake, and what its Java edition calls it, which clients of Kafka know."""


class BadExpressionError(ValueError):
    """The text is no regular expression of RE2; its words say why, as the Java edition does."""


def compiled(expression: str) -> Any:
    """The expression, with the methods of `re.Pattern`. Raises BadExpressionError."""
    import re2  # noqa: PLC0415 - most brokers never need it

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(expression, options=options)
    except re2.error as error:
        # RE2 says what is wrong, and after a colon where.
        mistake = error.args[0].decode(errors="replace").partition(": ")[0]
        raise BadExpressionError(_JAVA_MISTAKES.get(mistake, mistake)) from error
