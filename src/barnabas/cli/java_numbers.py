"""Numbers as Java computes and prints them: division that never fails, ``%.2f`` of its ``Formatter``."""

import math
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Final

# The longest double in full has 309 digits before the point.
_EXACT: Final = Context(prec=400, rounding=ROUND_HALF_UP)


def divide(dividend: float, divisor: float) -> float:
    """The quotient of two doubles: by zero it is infinite, or NaN where both are zero."""
    if divisor:
        return dividend / divisor
    return math.nan if math.isnan(dividend) or not dividend else math.copysign(math.inf, dividend)


def fixed(value: float, digits: int) -> str:
    """``String.format("%.<digits>f", value)``, rounded half up where Python rounds the binary value."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return f"{_EXACT.quantize(Decimal(repr(float(value))), Decimal(1).scaleb(-digits)):f}"
