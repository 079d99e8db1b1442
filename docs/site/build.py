"""Builds the site: runs the lessons that have changed, puts the pages together, and lets Sphinx write them.

python docs/site/build.py FOLDER [--fast] [--lessons 01_watch_a_network_learn ...]
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path

from sphinx.cmd.build import build_main

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

from executed import FOLDER, ROOT, executed  # noqa: E402
from sources import put_together, shown_by_html  # noqa: E402

from workbench.course.lesson import lessons_in  # noqa: E402

CACHE = ROOT / ".site"
LIMIT = 25_000_000  # bytes of the whole site


def main(argv: list[str] | None = None) -> int:
    """Build the site and return the exit status; warnings are errors."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--fast", action="store_true", help="run the lessons in their short form")
    parser.add_argument("--lessons", nargs="*", metavar="NAME", help="build these only (default: all)")
    parser.add_argument("--cache", type=Path, default=CACHE, help="where executed lessons are kept (default: .site)")
    options = parser.parse_args(argv)
    out, source = options.folder, options.cache / "source"
    lessons = [one for one in lessons_in(FOLDER) if not options.lessons or one.name in options.lessons]
    made = executed(lessons, options.fast, options.cache / "lessons")
    put_together(source, made, repository())
    html = options.cache / "html"
    shutil.rmtree(html, ignore_errors=True)
    status = build_main(["-W", "--keep-going", "-q", "-c", str(HERE), "-d", str(options.cache / "doctrees"), str(source), str(html)])
    if status:
        return status
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(html, out, ignore=shutil.ignore_patterns("_sources", "*.pickle", ".buildinfo*", "objects.inv"))
    for one in made:
        shutil.copytree(one.folder / "views", out / "views", dirs_exist_ok=True)
        shutil.copyfile(FOLDER / f"{one.name}.ipynb", out / "lessons" / f"{one.name}.ipynb")
    for picture in shown_by_html(ROOT / "README.md"):
        (out / picture.relative_to(ROOT)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(picture, out / picture.relative_to(ROOT))
    (out / ".nojekyll").touch()  # GitHub Pages leaves out folders that begin with _ otherwise
    files = sorted((path for path in out.rglob("*") if path.is_file()), key=lambda path: -path.stat().st_size)
    size = sum(path.stat().st_size for path in files)
    print(f"{out}: {len(files)} files, {size / 1e6:.1f} MB")
    if size > LIMIT:
        largest = "\n".join(f"  {path.stat().st_size / 1e6:5.2f} MB  {path.relative_to(out)}" for path in files[:10])
        print(f"The site may have {LIMIT / 1e6:g} MB. Its largest files:\n{largest}", file=sys.stderr)
        return 1
    return 0


def repository() -> str:
    """The address of the repository, which $SITE_REPOSITORY gives; "" if it is not set."""
    return os.environ.get("SITE_REPOSITORY", "").rstrip("/")


if __name__ == "__main__":
    sys.exit(main())
