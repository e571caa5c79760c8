"""What a run of rounds by hand prints:
a line as soon as it is known, figures at the end, and an exit code.
"""

import sys


def say(line):
    """A line, at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def end(problems, figures):
    """The last line; ends the process with 1 if there were problems."""
    say(f"{dict(figures)}, {len(problems)} problems")
    sys.exit(bool(problems))
