#!/bin/bash
# A long run as a chain of short jobs, for queues that do not requeue: each job submits the next one, which waits for its end. When the run is
# done, or when starting again would not help, the waiting job is cancelled.
#   sbatch chain.sh
#SBATCH --job-name=flotilla
#SBATCH --output=flotilla-%j.log
#SBATCH --partition=a100 --nodes=1-2 --exclusive --time=30
#SBATCH --no-requeue --no-kill --signal=B:USR2@120

# ---- site facts
FLOTILLA_HOME=${FLOTILLA_HOME:-/opt/flotilla}       # where cmake --install put it
FLOTILLA_JOB=${FLOTILLA_JOB:-job.toml}              # the job file
FLOTILLA_RUN=${FLOTILLA_RUN:-$SLURM_SUBMIT_DIR/run} # on a file system that all nodes share; the same for all jobs of the chain
FLOTILLA_TASKS=${FLOTILLA_TASKS:-1}                 # ranks on a node: one per GPU, or per socket
FLOTILLA_LINKS=${FLOTILLA_LINKS:-20}                # jobs that may follow this one

export PATH=$FLOTILLA_HOME/bin:$PATH
# shellcheck source=slurm/flotilla.sh
. "${FLOTILLA_SCRIPTS:-$FLOTILLA_HOME/share/flotilla/slurm}/flotilla.sh"
flotilla_chain
flotilla_job train "$FLOTILLA_JOB"
