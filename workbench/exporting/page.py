"""The page of the stand-alone replay: one script, known by its hash, and the data beside it, which no browser executes."""

from __future__ import annotations

import base64
from hashlib import sha256
from html import escape
from pathlib import Path

VIEW = Path(__file__).parent.parent / "jupyter" / "static" / "replay.js"

_STYLE = """
:root { color-scheme: light dark; }
html, body { height: 100%; margin: 0; }
body { display: flex; flex-direction: column; font: 14px/1.4 system-ui, sans-serif; background: Canvas; color: CanvasText; }
header { display: flex; flex-wrap: wrap; gap: 0 1em; align-items: baseline; padding: 6px 12px; }
h1 { font-size: 15px; margin: 0; }
header p { margin: 0; opacity: .75; }
#view { flex: 1; min-height: 420px; }
pre { overflow: auto; margin: 12px; }
""".strip()


def html(title: str, facts: list[str], data: str, stills: dict[str, str]) -> str:
    """The whole page. `data` is base64; every other text is escaped, but for the picture, which is markup of our own.

    RuntimeError when the view was not built.
    """
    script = _script()
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    told = "".join(f"<p>{escape(fact)}</p>" for fact in facts)
    still = stills.get("image/svg+xml", "")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<meta name="referrer" content="no-referrer">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<header><h1>{escape(title)}</h1>{told}</header>\n"
        f'<main id="view"><noscript>{still}<pre>{escape(stills.get("text/plain", ""))}</pre></noscript></main>\n'
        f'<script type="application/octet-stream" id="data">{data}</script>\n<script>{script}</script>\n</body>\n</html>\n'
    )


def _script() -> str:
    if not VIEW.exists():
        raise RuntimeError("The view of the replay is not built. Run `npm ci` and `npm run build` in extension/.")
    script = VIEW.read_text(encoding="utf-8").strip()
    if "</script" in script.lower() or "<!--" in script:  # the page would end there
        raise RuntimeError("The built view has a text that would end the page's script; build it again with the bundler of this version.")
    return script


def _hash(script: str) -> str:
    return "sha256-" + base64.b64encode(sha256(script.encode()).digest()).decode()
