"""How many seeds a simulation runs in the tests of one form."""

import os

from barnabas.core.form import describe


def first_seeds(count: int) -> range:
    """The first seeds; a fifth of them for the compiled form. What is decided wrong is the same in both
    forms, and the pure one goes through all of them; the compiled one is to show that it decides the same.

    BARNABAS_TEST_SEEDS sets an upper bound, for runs that judge the tests themselves.
    """
    count = min(count, int(os.environ.get("BARNABAS_TEST_SEEDS", count)))
    return range(count if describe() == "pure Python" else count // 5)
