"""How many seeds a simulation runs in the tests of one form."""

from barnabas.core.form import describe


def first_seeds(count: int) -> range:
    """The first seeds; a fifth of them for the compiled form. What is decided wrong is the same in both forms, and the
    pure one goes through all of them; the compiled one is to show that it decides the same.
    """
    return range(count if describe() == "pure Python" else count // 5)
