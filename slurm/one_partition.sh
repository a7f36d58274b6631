#!/bin/bash
# One run in one partition. A lost node costs the work since the last checkpoint: the job keeps its other nodes and goes on with them.
#   sbatch one_partition.sh            (with FLOTILLA_JOB=my.toml in the environment: another job file)
#SBATCH --job-name=flotilla
#SBATCH --output=flotilla-%j.log --open-mode=append
#SBATCH --partition=a100 --nodes=1-2 --exclusive --time=30
# Back to the queue after a warning, 120 s before the time limit; Slurm may be up to 60 s early or late.
#SBATCH --requeue --signal=B:USR2@120
# When a node is lost, the job stays.
#SBATCH --no-kill

# ---- site facts
FLOTILLA_HOME=${FLOTILLA_HOME:-/opt/flotilla}       # where cmake --install put it
FLOTILLA_JOB=${FLOTILLA_JOB:-job.toml}              # the job file
FLOTILLA_RUN=${FLOTILLA_RUN:-$SLURM_SUBMIT_DIR/run} # on a file system that all nodes share; the same after every requeue
FLOTILLA_TASKS=${FLOTILLA_TASKS:-1}                 # ranks on a node: one per GPU, or per socket

export PATH=$FLOTILLA_HOME/bin:$PATH
# shellcheck source=slurm/flotilla.sh
. "${FLOTILLA_SCRIPTS:-$FLOTILLA_HOME/share/flotilla/slurm}/flotilla.sh"
flotilla_job train "$FLOTILLA_JOB"
