"""A profile of ipyparallel for Slurm: copy it to ~/.ipython/profile_slurm/ipcluster_config.py, then `wb.cluster(8, profile="slurm")`."""

c = get_config()  # noqa: F821  ipyparallel provides it

c.Cluster.engine_launcher_class = "slurm"
c.Cluster.controller_ip = "*"  # the ranks run on other machines than the notebook
c.Cluster.engine_timeout = 600  # seconds, the time in the queue included
c.SlurmEngineSetLauncher.batch_template = """#!/bin/sh
#SBATCH --job-name=ranks-{cluster_id}
#SBATCH --ntasks={n}
#SBATCH --cpus-per-task=1
#SBATCH --time=01:00:00
export OMP_NUM_THREADS=1
exec mpiexec --with-ft ulfm -n {n} {program_and_args}
"""
