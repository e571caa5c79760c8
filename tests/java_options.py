"""Options of the JVMs that tests start and nobody measures, in one line as Spark takes them."""

from pathlib import Path
from typing import Final

_HUGE_PAGES: Final = Path("/sys/kernel/mm/transparent_hugepage/enabled")
# Each small page of memory is dear on some virtual machines: with large ones a JVM took a tenth of the time
# there. A JVM that has none to use says so in a line, which a test may read.
_LARGE: Final = _HUGE_PAGES.exists() and "[never]" not in _HUGE_PAGES.read_text()

QUICK: Final = "-XX:TieredStopAtLevel=1" + " -XX:+UseTransparentHugePages" * _LARGE
"""The first compiler alone: what lives for seconds would compile in vain with a second one."""
SMALL: Final = f"{QUICK} -XX:+UseSerialGC"
"""With the collector that has no threads of its own."""
