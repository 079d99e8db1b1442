"""A profile of ipyparallel for PBS: copy it to ~/.ipython/profile_pbs/ipcluster_config.py, then `wb.cluster(8, profile="pbs")`."""

c = get_config()  # noqa: F821  ipyparallel provides it

c.Cluster.engine_launcher_class = "pbs"
c.Cluster.controller_ip = "*"  # the ranks run on other machines than the notebook
c.Cluster.engine_timeout = 600  # seconds, the time in the queue included
c.PBSEngineSetLauncher.batch_template = """#!/bin/sh
#PBS -N ranks
#PBS -l select={n}:ncpus=1:mpiprocs=1
#PBS -l walltime=01:00:00
export OMP_NUM_THREADS=1
exec mpiexec --with-ft ulfm -n {n} {program_and_args}
"""
