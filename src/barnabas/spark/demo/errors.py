"""What stops the demo."""

from barnabas.core.errors import BarnabasError


class DemoError(BarnabasError):
    """One line that says what went wrong and what to do."""
