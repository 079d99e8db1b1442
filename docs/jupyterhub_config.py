"""JupyterHub for a class on one machine: docs/hub.md explains each setting.

jupyterhub -f jupyterhub_config.py        (as root: each student works under a Unix account of their own)
"""

import asyncio
import os
import pwd
import sys
from pathlib import Path

from jupyterhub.spawner import LocalProcessSpawner

from workbench.cli import QUIET

c = get_config()  # noqa: F821

HERE = Path(__file__).resolve().parent
CLASS = Path(os.environ.get("WORKBENCH_CLASS", "/srv/class"))  # each student's answers, for `workbench class /srv/class`
MEMORY = 2_000_000_000  # bytes that one kernel may have

# -- who ------------------------------------------------------------------------------------------------------------------------------
# The names in students.txt, one a line. A password is chosen at the first login.
c.JupyterHub.authenticator_class = "firstuse"
c.FirstUseAuthenticator.create_users = False
c.Authenticator.allowed_users = set((HERE / "students.txt").read_text(encoding="utf-8").split())
c.Authenticator.admin_users = {"teacher"}
c.JupyterHub.admin_access = False


# -- a server for each ----------------------------------------------------------------------------------------------------------------
async def run(*command: str, **options: object) -> None:
    """Run a command, and fail with what it printed."""
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, **options)
    output, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)}: {output.decode()}")


accounts = asyncio.Lock()  # useradd locks the list of accounts, and does not wait


async def prepare(spawner: LocalProcessSpawner) -> None:
    """Make the student's account, a folder for the answers that only the student and the teacher can read, and the lessons."""
    name = spawner.user.name
    async with accounts:
        try:
            pwd.getpwnam(name)
        except KeyError:
            await run("useradd", "--create-home", "--key", "HOME_MODE=0700", "--shell", "/usr/sbin/nologin", name)
    account = pwd.getpwnam(name)
    answers = CLASS / name
    answers.mkdir(mode=0o750, exist_ok=True)
    os.chown(answers, account.pw_uid, CLASS.stat().st_gid)
    await run("workbench", "lessons", "lessons", user=name, group=account.pw_gid, cwd=account.pw_dir)


c.JupyterHub.spawner_class = LocalProcessSpawner
c.Spawner.pre_spawn_hook = prepare
c.Spawner.cmd = ["prlimit", f"--data={MEMORY}", "jupyterhub-singleuser"]
c.Spawner.notebook_dir = "~/lessons"
c.Spawner.default_url = "/lab/tree/01_watch_a_network_learn.ipynb"
c.Spawner.environment = {
    "OPENBLAS_NUM_THREADS": "1",
    "WORKBENCH_CLASS": str(CLASS),
    "JUPYTER_CONFIG_PATH": str(QUIET),
}
c.Spawner.args = [
    "--KernelManager.transport=ipc",  # with TCP, any account of the machine could listen to a kernel's output
    "--ServerApp.terminals_enabled=False",
    "--MappingKernelManager.cull_idle_timeout=3600",
]
c.Spawner.start_timeout = c.Spawner.http_timeout = 300  # at the beginning of a lesson all start at once

# -- idle servers are ended -----------------------------------------------------------------------------------------------------------
c.JupyterHub.load_roles = [
    {"name": "culler", "services": ["culler"], "scopes": ["list:users", "read:users:activity", "read:servers", "delete:servers"]}
]
c.JupyterHub.services = [{"name": "culler", "command": [sys.executable, "-m", "jupyterhub_idle_culler", "--timeout=3600"]}]

c.JupyterHub.db_url = "sqlite:///jupyterhub.sqlite"
c.JupyterHub.bind_url = "http://127.0.0.1:8000"
