"""Sphinx extension: a picture `name.svg` with a file `name.replay` beside it becomes a live view; and what every page has: its policy."""

from __future__ import annotations

import hashlib
import re
import shutil
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

# The view styles its elements, and its heat maps are pictures made in the page; nothing else is allowed but files of the site.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'"
)

# What axe-core finds in the theme's pages, and what it should be.
MENDED = {
    '<p class="caption" role="heading">': '<p class="caption" role="heading" aria-level="2">',
    '<th class="head"><p></p></th>': "<td></td>",
    '<summary aria-label="Toggle hidden content">': "<summary>",
    '<aside class="sidebar-drawer">': '<aside class="sidebar-drawer" aria-label="Pages of this site">',
    '<aside class="toc-drawer">': '<aside class="toc-drawer" aria-label="On this page">',
}


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the handlers."""
    app.connect("doctree-read", embed)
    app.connect("html-page-context", put_policy)
    app.connect("build-finished", finish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def embed(app: Sphinx, doctree: nodes.document) -> None:
    """Put each picture that has a replay in the box of a live view, with its text as the caption."""
    page = Path(app.env.docname)
    for image in list(doctree.findall(nodes.image)):
        data = (Path(app.srcdir) / image["uri"]).with_suffix(".replay")
        if not data.exists():
            continue
        app.env.metadata[app.env.docname]["hide-toc"] = "true"  # the page is wider without it
        name = f"{hashlib.sha256(data.read_bytes()).hexdigest()[:16]}.replay"
        folder = Path(app.outdir) / "views"
        folder.mkdir(exist_ok=True)
        shutil.copyfile(data, folder / name)
        address = "../" * (len(page.parts) - 1) + f"views/{name}"
        headings = '<h3 class="unseen">Live view</h3>'
        if image.parent.parent.parent is doctree:  # right under the page's title, where a heading of the second level would be missing
            headings = f'<h2 class="unseen">A recorded backward pass</h2>{headings}'
        before = f'<figure class="replay steps">{headings}<div class="stage" data-replay="{address}">'
        after = f"</div><figcaption>{escape(image.get('alt', ''))}</figcaption></figure>"
        whole = [nodes.raw("", before, format="html"), image.deepcopy(), nodes.raw("", after, format="html")]
        paragraph = image.parent
        if not isinstance(paragraph, nodes.paragraph) or len(paragraph.children) > 1:
            raise ValueError(f"{page}: the picture {image['uri']} has a replay, so it must be a paragraph of its own.")
        paragraph.replace_self(whole)


def put_policy(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None) -> None:
    """Give the page its Content-Security-Policy."""
    meta = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n<meta name="referrer" content="no-referrer">\n'
    context["metatags"] = meta + context.get("metatags", "")


def finish(app: Sphinx, error: Exception | None) -> None:
    """Mend the pages: move the theme's scripts to files, since the policy allows no others, and add what screen readers miss."""
    if error is not None:
        return
    out = Path(app.outdir)
    for path in out.rglob("*.html"):
        root = "../" * (len(path.relative_to(out).parts) - 1)

        def moved(found: re.Match[str], root: str = root) -> str:
            name = f"_static/inline-{hashlib.sha256(found[1].encode()).hexdigest()[:8]}.js"
            (out / name).write_text(found[1], encoding="utf-8")
            return f'<script src="{root}{name}"></script>'

        text = re.sub(r"<script>(.*?)</script>", moved, path.read_text(encoding="utf-8"), flags=re.DOTALL)
        for old, new in MENDED.items():
            text = text.replace(old, new)
        path.write_text(text, encoding="utf-8")
