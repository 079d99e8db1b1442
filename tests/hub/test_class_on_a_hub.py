"""The documented hub with two students: what each can do, and what neither can do to the other."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from hubs import Hub, Student, running_hub, views

from kernel_messages import printed

pytestmark = [pytest.mark.hub, pytest.mark.filterwarnings("default")]
LESSON = "01_watch_a_network_learn.ipynb"
IDLE = 'c.JupyterHub.services[0]["command"] = [sys.executable, "-m", "jupyterhub_idle_culler", "--timeout=20", "--cull-every=5"]'
ADA, BEN = "gw-test-ada", "gw-test-ben"


@pytest.fixture(scope="module")
def hub(tmp_path_factory) -> Iterator[Hub]:
    assert os.geteuid() == 0, "the hub gives each student a Unix account, which takes root"
    folder = tmp_path_factory.mktemp("hub")
    for one in (folder, *folder.parents[:2]):
        one.chmod(0o755)
    try:
        with running_hub(folder, [ADA, BEN], IDLE) as hub:
            yield hub
    finally:
        for name in (ADA, BEN):
            subprocess.run(["userdel", "--remove", "--force", name], capture_output=True, check=False)


async def there(hub: Hub, name: str) -> Student:
    """A student with a kernel."""
    student = Student(hub, name)
    await student.log_in()
    await student.open_lab()
    await student.start_kernel(LESSON)
    return student


def test_students_work_apart(hub: Hub) -> None:
    asyncio.run(apart(hub))


async def apart(hub: Hub) -> None:
    ada, ben = await asyncio.gather(there(hub, ADA), there(hub, BEN))

    # each has the lessons, and a kernel that shows pictures and steps through them
    assert LESSON in (await ada.http.get(f"{ada.home}/api/contents")).text
    status, published = await ada.run("%load_ext workbench\nimport engine, os\nw = engine.tensor(2.0, requires_grad=True)\nwb.step(w * w)")
    assert status == "ok"
    (view,) = views(published)
    assert (await ada.graph(view))["nodes"]
    assert (await ada.ask(view, type="step", do="next"))["index"] == 1
    assert printed((await ada.run("print(os.environ['OPENBLAS_NUM_THREADS'])"))[1]) == "1\n"

    # nothing is shared
    assert (await ben.run("w"))[0].startswith("NameError")
    assert (await ben.http.get(f"{ada.home}/api/contents")).status_code in (401, 403)
    assert (await ben.http.get(f"/hub/user/{ADA}/lab")).status_code in (403, 404)
    await ben.run("import os, glob, socket")
    for folder in (f"/home/{ADA}", f"/home/{ADA}/lessons", str(hub.answers / ADA)):
        assert (await ben.run(f"os.listdir({folder!r})"))[0].startswith("PermissionError"), folder
    assert (await ben.run(f"os.kill({process_of(ADA)}, 9)"))[0].startswith("PermissionError")
    transport = "import json, ipykernel\nprint(json.load(open(ipykernel.get_connection_file()))['transport'])"
    assert printed((await ada.run(transport))[1]) == "ipc\n"

    # too large an array is an error of the student's, and the kernel goes on
    assert (await ben.run("x = bytearray(4_000_000_000)"))[0].startswith("MemoryError")
    assert printed((await ben.run("print('still here')"))[1]) == "still here\n"

    # answers reach the teacher
    quiz = "wb.teach.quiz.save('lesson-1-answers.json')\nwb.teach.quiz('What is 1 + 1?', 2, id='sum', about=None)"
    (view,) = views((await ada.run(quiz))[1])
    await ada.graph(view)
    await ada.ask(view, type="answer_question", name="sum", do="answer", text="2")
    roster = subprocess.run(
        [sys.executable, "-m", "workbench", "class", str(hub.answers), "--once"], capture_output=True, text=True, check=True
    ).stdout
    assert re.search(r"1 sum +1 +100%", roster) and re.search(rf"{ADA} +✓", roster)

    # an idle server is ended, with all that runs under its account
    await ada.close()
    await ben.close()
    await until_gone(ADA)


def test_a_name_that_is_not_on_the_list_and_a_wrong_password_are_refused(hub: Hub) -> None:
    async def refused() -> None:
        stranger, known = Student(hub, "gw-test-eve"), Student(hub, ADA)
        assert (await stranger.log_in()).status_code == 403
        await known.log_in()
        other = Student(hub, ADA)
        assert (await other.log_in("not what Ada chose")).status_code == 403
        for one in (stranger, known, other):
            await one.close()

    asyncio.run(refused())


def processes_of(name: str) -> list[int]:
    found = subprocess.run(["ps", "-u", name, "-o", "pid="], capture_output=True, text=True, check=False).stdout
    return [int(pid) for pid in found.split()]


def process_of(name: str) -> int:
    return processes_of(name)[0]


async def until_gone(name: str) -> None:
    deadline = time.monotonic() + 300
    while processes_of(name):
        assert time.monotonic() < deadline, f"{name} still has processes {processes_of(name)}"
        await asyncio.sleep(1)
