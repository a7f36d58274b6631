#!/bin/bash
# A run in a queue whose jobs are taken away when somebody more urgent comes. Slurm sends TERM, waits for the partition's GraceTime or for KillWait
# (often 30 s), kills, and puts the job back into the queue. What was saved in that time is kept; else the last checkpoint counts, so they come often.
#   sbatch preemptible.sh
#SBATCH --job-name=flotilla
#SBATCH --output=flotilla-%j.log --open-mode=append
#SBATCH --partition=preemptible --nodes=1-2 --exclusive --time=30
#SBATCH --requeue --no-kill --signal=B:USR2@120

# ---- site facts
FLOTILLA_HOME=${FLOTILLA_HOME:-/opt/flotilla}       # where cmake --install put it
FLOTILLA_JOB=${FLOTILLA_JOB:-job.toml}              # the job file
FLOTILLA_RUN=${FLOTILLA_RUN:-$SLURM_SUBMIT_DIR/run} # on a file system that all nodes share; the same after every requeue
FLOTILLA_TASKS=${FLOTILLA_TASKS:-1}                 # ranks on a node: one per GPU, or per socket
export FLOTILLA_ON_NO_PLAN=requeue                      # too few nodes this time: try again later

export PATH=$FLOTILLA_HOME/bin:$PATH
# shellcheck source=slurm/flotilla.sh
. "${FLOTILLA_SCRIPTS:-$FLOTILLA_HOME/share/flotilla/slurm}/flotilla.sh"
flotilla_job train "$FLOTILLA_JOB" --checkpoint.every-time="${FLOTILLA_SAVE_EVERY:-5min}"
