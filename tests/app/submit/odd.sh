#!/bin/bash
# Written by flotilla submit. Options on sbatch's command line override those of this file.
# The job re-plans at every start for the nodes that it receives.
#SBATCH --job-name=flotilla-my-run
#SBATCH --output=flotilla-%j.log
#SBATCH --open-mode=append
#SBATCH --signal=B:USR2@120
#SBATCH --requeue
#SBATCH --no-kill
#SBATCH --partition=mixed-gpu_x
#SBATCH --nodes=1-5
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=8
#SBATCH --exclusive
#SBATCH --gres=gpu:h100:8

cd -- @FOLDER@ || exit 65
FLOTILLA=@PROGRAM@
FLOTILLA_RUN=my-run
FLOTILLA_TASKS=8
FLOTILLA_SIGNAL=USR2
FLOTILLA_ON_NO_PLAN=stop
FLOTILLA_REQUEUES=100
. @LIBRARY@ || exit 69
flotilla_job train @JOB@ '--training.precision=bf16'
