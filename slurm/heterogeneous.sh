#!/bin/bash
# One run over three partitions: a heterogeneous job, one MPI world. Lines with #SBATCH are Slurm's; "hetjob" separates the components.
#   sbatch heterogeneous.sh            (with FLOTILLA_JOB=my.toml in the environment: another job file)
#SBATCH --job-name=flotilla
#SBATCH --output=flotilla-%j.log --open-mode=append
#SBATCH --requeue
# A warning to this script 120 s before the time limit; Slurm may be up to 60 s early or late.
#SBATCH --signal=B:USR2@120
# A range of nodes lets a requeued job start with fewer. Slurm 22.05 gives the range's most only with --exclusive (or -n): with
# --ntasks-per-node it gives the least.
# No --no-kill here: a heterogeneous job that lost a node is requeued whole.
#SBATCH --partition=a100 --nodes=1-2 --exclusive --time=30
#SBATCH hetjob
#SBATCH --partition=v100 --nodes=1-2 --exclusive --time=30
#SBATCH hetjob
#SBATCH --partition=cpu --nodes=1-2 --exclusive --time=30

# ---- site facts
FLOTILLA_HOME=${FLOTILLA_HOME:-/opt/flotilla}             # where cmake --install put it
FLOTILLA_JOB=${FLOTILLA_JOB:-job.toml}                    # the job file
FLOTILLA_RUN=${FLOTILLA_RUN:-$SLURM_SUBMIT_DIR/run}       # on a file system that all nodes share; the same after every requeue
FLOTILLA_TASKS=${FLOTILLA_TASKS:-1}                       # ranks on a node: one per GPU, or per socket
# What differs between components; here nothing. FLOTILLA_SETUP_0='module load cuda/12' is run by the ranks of component 0.

export PATH=$FLOTILLA_HOME/bin:$PATH
# shellcheck source=slurm/flotilla.sh
. "${FLOTILLA_SCRIPTS:-$FLOTILLA_HOME/share/flotilla/slurm}/flotilla.sh"
flotilla_job train "$FLOTILLA_JOB"
