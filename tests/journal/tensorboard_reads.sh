#!/usr/bin/env bash
# TensorBoard reads our event files back. Its package is installed once, into a virtual environment in the build folder; where that cannot
# be (no python3, no package registry), the test is skipped (77).
#
#   tensorboard_reads.sh WRITE_EVENTS VIRTUAL_ENVIRONMENT
set -euo pipefail
write_events=$1
environment=$2
skip() {
  echo "skipped: $1"
  exit 77
}
command -v python3 >/dev/null || skip "no python3"
if [ ! -e "$environment/installed" ]; then
  rm -rf "$environment"
  python3 -m venv "$environment" >/dev/null 2>&1 || skip "python3 makes no virtual environment"
  timeout 240 "$environment/bin/pip" install --quiet --disable-pip-version-check --retries 0 tensorboard >/dev/null 2>&1 || skip "the package tensorboard cannot be installed"
  touch "$environment/installed"
fi
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
"$write_events" "$logs"
"$environment/bin/python" - "$logs" <<'PYTHON'
import sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

run = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0, "tensors": 0})
run.Reload()
tags = run.Tags()


def expect(what, found, wanted):
    if found != wanted:
        sys.exit(f"{what}: found {found!r}, expected {wanted!r}")


expect("scalars", sorted(tags["scalars"]), ["loss/training", "loss/validation", "optimizer/gradient_norm", "optimizer/learning_rate",
                                            "speed/evaluation_seconds", "speed/mfu", "speed/step_seconds", "speed/tokens_per_second"])
losses = run.Scalars("loss/training")
expect("steps", [e.step for e in losses], list(range(1, 201)))
# Steps 81 to 100 of the first start were lost: they had losses above 100.
expect("lost steps", [e.step for e in losses if e.value > 100], list(range(1, 81)))
expect("time", losses[199].wall_time, 1e9 + 1200)
expect("validation", [(e.step, e.value) for e in run.Scalars("loss/validation")], [(200, 0.75)])
expect("texts", sorted(tags["tensors"]), ["configuration", "plan"])
expect("text", run.Tensors("configuration")[-1].tensor_proto.string_val[0], b"    [training]\n    steps = 200\n    ")
expect("plugin", run.SummaryMetadata("plan").plugin_data.plugin_name, "text")
PYTHON
echo "TensorBoard reads 200 steps of 2 starts"
