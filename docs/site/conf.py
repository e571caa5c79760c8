"""How `make site` builds the documents into pages.

Sphinx reads the Markdown where it lies: the checkout is the folder of sources, so that links between files
hold in a checkout and on the site alike.
"""

import re
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "src"))

from pygments.lexers.special import TextLexer  # noqa: E402
from sphinx.application import Sphinx  # noqa: E402
from sphinx.errors import SphinxError  # noqa: E402

from barnabas import __version__  # noqa: E402 - it is found only now

project = "Barnabas"
project_copyright = "the authors of Barnabas"
release = version = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc"]
source_suffix = {".md": "markdown"}
root_doc = "docs/index"
include_patterns = ["*.md", "docs/**.md", "examples/**.md"]
# Folders that are not searched for pages at all.
exclude_patterns = [
    *(".*", "bench", "build", "deploy", "dist", "parity", "src", "tests", "var", "barnabas-demo"),
]

myst_heading_anchors = 4
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "none"

html_theme = "furo"
html_title = "Barnabas"
# The site needs nothing from elsewhere, and says nothing of the machine that built it.
html_show_sphinx = False
html_copy_source = False
html_extra_path = ["root"]

_LOADED: Final = re.compile(
    r"<(?:script|img|iframe)\b[^>]*\bsrc=.(?:https?:)?//"
    r"|<link\b(?![^>]*canonical)[^>]*\bhref=.(?:https?:)?//"
)
_LOADED_BY_STYLE: Final = re.compile(r"@import\s+[^;]*//|url\([\"']?(?:https?:)?//")


def setup(app: Sphinx) -> None:
    """Diagrams are shown as their text, which reads well: what draws them would come from elsewhere."""
    app.add_lexer("mermaid", TextLexer)
    app.connect("build-finished", refuse_what_comes_from_elsewhere)


def refuse_what_comes_from_elsewhere(app: Sphinx, failure: Exception | None) -> None:
    """Raises SphinxError where a page would load a script, a style, a picture or a font from elsewhere."""
    if failure is not None:
        return
    for page in Path(app.outdir).rglob("*"):
        wanted = {".html": _LOADED, ".css": _LOADED_BY_STYLE}.get(page.suffix)
        if wanted is not None and (found := wanted.search(page.read_text())):
            raise SphinxError(f"{page.relative_to(app.outdir)} loads from elsewhere: {found[0]}")
