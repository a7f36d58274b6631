#!/bin/bash
# Written by flotilla submit. Options on sbatch's command line override those of this file.
# The job re-plans at every start for the nodes that it receives.
#SBATCH --job-name=flotilla-my-run
#SBATCH --output=flotilla-%j.log
#SBATCH --open-mode=append
#SBATCH --signal=B:USR2@120
#SBATCH --requeue
#SBATCH --no-kill
#SBATCH --partition=a100
#SBATCH --nodes=1-2
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=1
#SBATCH --exclusive
#SBATCH --gres=gpu:a100:4

cd -- @FOLDER@ || exit 65
FLOTILLA=@PROGRAM@
FLOTILLA_RUN=my-run
FLOTILLA_TASKS=4
FLOTILLA_SIGNAL=USR2
FLOTILLA_ON_NO_PLAN=stop
FLOTILLA_REQUEUES=100
. @LIBRARY@ || exit 69
flotilla_job train @JOB@ '--training.precision=fp16'
