"""The HTML page of the stand-alone replay: the view's script, allowed by its hash in the content security policy, and inert data."""

from __future__ import annotations

import base64
import gzip
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from pathlib import Path

VIEW = Path(__file__).parent.parent / "jupyter" / "static" / "replay.js"

# Unpacks and runs the view; the browser accepts only the script with the hash in the policy.
START = """
const element = (id) => document.getElementById(id);
const packed = Uint8Array.from(atob(element("script").textContent), (char) => char.charCodeAt(0));
(async () => {
  const script = document.createElement("script");
  script.textContent = await new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  document.body.append(script);
})().catch((error) => {
  document.querySelector("main").textContent = `This replay cannot be shown: ${error.message} A browser of 2023 or later is needed.`;
});
""".strip()

_STYLE = """
:root { color-scheme: light dark; }
html, body { height: 100%; margin: 0; }
body { display: flex; flex-direction: column; font: 14px/1.4 system-ui, sans-serif; background: Canvas; color: CanvasText; }
header { display: flex; flex-wrap: wrap; gap: 0 1em; align-items: baseline; padding: 6px 12px; }
h1 { font-size: 15px; margin: 0; }
header p { margin: 0; opacity: .75; }
h2 { position: absolute; width: 1px; height: 1px; margin: 0; overflow: hidden; clip-path: inset(50%); }
#view { flex: 1; min-height: 420px; }
pre { overflow: auto; margin: 12px; }
""".strip()


def html(title: str, facts: list[str], data: bytes, stills: dict[str, str]) -> str:
    """Return the whole page. The texts are escaped, except the SVG in `stills`, which is our own markup.

    Raises RuntimeError if the view has not been built.
    """
    script = script_of()
    told = "".join(f"<p>{escape(fact)}</p>" for fact in facts)
    still = stills.get("image/svg+xml", "")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy_of(script.text))}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<meta name="referrer" content="no-referrer">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<header><h1>{escape(title)}</h1>{told}<h2>The graph, its steps and tensors</h2></header>\n"
        f'<main id="view"><noscript>{still}<pre>{escape(stills.get("text/plain", ""))}</pre></noscript></main>\n'
        f'<script type="application/octet-stream" id="data">{base64.b64encode(data).decode()}</script>\n'
        f'<script type="application/octet-stream" id="script">{script.packed}</script>\n<script>{START}</script>\n</body>\n</html>\n'
    )


@dataclass(frozen=True)
class Script:
    """The view's script."""

    text: str

    @property
    def packed(self) -> str:
        """Compressed, as base64, for the element that `START` unpacks."""
        return base64.b64encode(gzip.compress(self.text.encode(), 9, mtime=0)).decode()


def script_of() -> Script:
    """The script that shows replays. Raises RuntimeError if it has not been built."""
    if not VIEW.exists():
        raise RuntimeError("The view of the replay is not built. Run `npm ci` and `npm run build` in extension/.")
    return Script(VIEW.read_text(encoding="utf-8").strip())


def policy_of(script: str) -> str:
    """The content security policy of a page that runs `START` and the script, and nothing else."""
    return (
        f"default-src 'none'; script-src '{_hash(START)}' '{_hash(script)}'; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(script: str) -> str:
    return "sha256-" + base64.b64encode(sha256(script.encode()).digest()).decode()
