#!/bin/bash
# Written by flotilla submit. Options on sbatch's command line override those of this file.
# The job re-plans at every start for the nodes that it receives.
#SBATCH --job-name=flotilla-my-run
#SBATCH --output=flotilla-%j.log
#SBATCH --open-mode=append
#SBATCH --signal=B:USR2@300
#SBATCH --requeue
#SBATCH --partition=a100
#SBATCH --nodes=1-2
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=16
#SBATCH --exclusive
#SBATCH --gres=gpu:a100:4
#SBATCH --constraint=a100-40gb
#SBATCH --mem=131072M
#SBATCH hetjob
#SBATCH --partition=v100
#SBATCH --nodes=1-6
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=8
#SBATCH --exclusive
#SBATCH --gres=gpu:v100:4
#SBATCH --mem=131072M

cd -- @FOLDER@ || exit 65
module load flotilla || exit 69
FLOTILLA=@PROGRAM@
FLOTILLA_RUN=my-run
FLOTILLA_TASKS_0=4
FLOTILLA_TASKS_1=4
FLOTILLA_SETUP_1='module load cuda/12.2'
FLOTILLA_SIGNAL=USR2
FLOTILLA_ON_NO_PLAN=stop
FLOTILLA_REQUEUES=100
. @LIBRARY@ || exit 69
flotilla_job train @JOB@ '--training.global-batch=1024' '--training.length=2048' '--training.precision=fp16'
