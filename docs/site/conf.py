"""The configuration of Sphinx for the site; build.py runs it."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))

project = "Gradient Workbench"
author = "The Gradient Workbench authors"
version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
extensions = ["myst_nb", "formulas", "embedding"]

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
nb_execution_mode = "off"  # executed.py has run them
nb_merge_streams = True
nb_code_prompt_show, nb_code_prompt_hide = "Show the code", "Hide the code"

html_theme = "furo"
html_title = project
html_favicon = str(ROOT / "extension" / "src" / "lab" / "icon.svg")
templates_path = [str(HERE / "templates")]
html_static_path = [str(HERE / "static"), str(ROOT / "workbench" / "jupyter" / "static" / "replay.js")]
html_css_files = ["site.css"]
html_js_files = [("site.js", {"defer": ""}), ("replay.js", {"defer": ""})]
html_math_renderer = "mathml"
html_copy_source = False
html_show_copyright = False
html_use_index = False
html_domain_indices = False
html_last_updated_fmt = None
pygments_style, pygments_dark_style = "a11y-high-contrast-light", "a11y-high-contrast-dark"
