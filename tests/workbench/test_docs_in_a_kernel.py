"""The programs of the documentation in a kernel, where `wb.step` and the others give a view: what a page promises of it is there, too."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from kernels import Kernel

from page_blocks import blocks
from test_docs import BEFORE, ELSEWHERE, PAGES

pytestmark = [pytest.mark.slow, pytest.mark.long]  # without a kernel they run in test_docs


@pytest.fixture(scope="module")
def kernel():
    kernel = Kernel(str(Path(__file__).parents[1]))
    kernel.run("%load_ext workbench\n%matplotlib agg")
    yield kernel
    kernel.close()


@pytest.mark.parametrize("name", [name for name, page in PAGES.items() if blocks(page, "python") and name not in ELSEWHERE])
def test_the_programs_of_a_page_run_cell_by_cell(name, kernel, tmp_path):
    kernel.run("%reset -f")
    kernel.run(f"import os\nos.chdir({str(tmp_path)!r})\nos.environ['WB_UPDATE'] = '1'\n{BEFORE.get(name, '')}")
    for number, (_, block) in enumerate(blocks(PAGES[name], "python"), 1):
        code = re.sub(r"(?m)^%load_ext .*$", "", block).replace("/shared/", f"{tmp_path.as_posix()}/").replace("tests/graphs/", "")
        code = f"view = lesson\n{code}" if "wb.teach.present(view" in code else code
        errors = [m["content"] for m in kernel.run(code) if m["msg_type"] == "error"]
        assert not errors, f"{name}, program {number}: {errors[0]['ename']}: {errors[0]['evalue']}\n" + "\n".join(errors[0]["traceback"])
