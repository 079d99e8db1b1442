"""The program that `mpiexec` starts for each process of a job that was started by something else: see `seats`.

It writes down what MPI needs to know, waits until its process has ended, and ends in the same way.
"""

import json
import os
import signal
import sys

PREFIXES = ("OMPI_", "OPAL_", "PMIX_", "PRTE_")


def main(folder: str) -> None:
    import fcntl  # `seats`, which imports this file, is also imported where there is none

    rank = os.environ["OMPI_COMM_WORLD_RANK"]
    with open(f"{folder}/{rank}.writing", "w") as file:
        json.dump({name: value for name, value in os.environ.items() if name.startswith(PREFIXES)}, file)
    os.rename(f"{folder}/{rank}.writing", f"{folder}/{rank}.seat")
    with open(f"{folder}/{rank}.held", "r+b") as held:
        fcntl.lockf(held, fcntl.LOCK_EX)  # the system gives it when the process has ended, however it did
    if not os.path.exists(f"{folder}/{rank}.left"):
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1])
