"""Convert LaTeX between dollars to MathML when the site is built; browsers show it without a script or a download."""

import html
import re
from typing import Any

from latex2mathml.converter import convert

SPAN = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', flags=re.S)
BLOCK = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', flags=re.S)


def on_page_content(content: str, **_: Any) -> str:
    """Replace formulas marked by the extension arithmatex."""
    content = BLOCK.sub(lambda found: convert(html.unescape(found[1].strip()), display="block"), content)
    return SPAN.sub(lambda found: convert(html.unescape(found[1].strip())), content)
