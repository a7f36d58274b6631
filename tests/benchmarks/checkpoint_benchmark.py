#!/usr/bin/env python3
"""What a checkpoint costs training: saves that stop it beside saves from a copy, in turns, so that a machine that changes its speed changes
both. Prints for each round the median pause of a save and the median step, and of asynchronous saves the median step while one is written;
then the medians of the rounds' ratios with their range.

    tests/benchmarks/checkpoint_benchmark.py                       build/ holds a Release build
    tests/benchmarks/checkpoint_benchmark.py --model gpt2-mini --steps 60 --every 12 --rounds 5 --threads 1 --folder DIRECTORY
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parents[2]


def run(options, folder, asynchronous):
    """Records of one run's metrics."""
    directory = pathlib.Path(folder) / "run"
    subprocess.run(["rm", "-rf", str(directory)], check=True)
    command = [str(HERE / "build/src/app/flotilla"), "train", "--model.name", options.model, "--data.train", f"{folder}/text.txt",
               "--data.format", "text", "--training.length", "128", "--training.global-batch", "8", "--training.steps", str(options.steps),
               "--training.warmup-steps", "0", "--plan.microbatch", "4", "--run.threads", str(options.threads), "--run.directory",
               str(directory), "--probe.file", f"{folder}/profile.json", "--probe.fresh-for", "1d", "--checkpoint.every",
               str(options.every), "--checkpoint.keep", "1", f"--checkpoint.asynchronous={'true' if asynchronous else 'false'}"]
    ended = subprocess.run(command, capture_output=True, text=True)
    if ended.returncode != 0:
        raise SystemExit(ended.stdout + ended.stderr)
    with open(directory / "metrics.jsonl") as lines:
        return [json.loads(line) for line in lines]


def judge(records, asynchronous):
    """Median pause and seconds of a save, median step with nothing beside it, and median step while a checkpoint is written."""
    saves = [r for r in records if r.get("event") == "checkpoint" and ("pause_seconds" in r) == asynchronous]
    steps = [r for r in records if "event" not in r][3:]
    during, alone = [], []
    for step in steps:
        begin, end = step["time"] - step["step_seconds"], step["time"]
        whole = any(s["time"] - s["seconds"] <= begin and end <= s["time"] for s in saves) if asynchronous else False
        apart = all(end <= s["time"] - s["seconds"] or s["time"] <= begin for s in saves)
        if whole:
            during.append(step["step_seconds"])
        elif apart:
            alone.append(step["step_seconds"])
    pauses = [s.get("pause_seconds", s["seconds"]) for s in saves]
    median = lambda values: statistics.median(values) if values else float("nan")
    return median(pauses), median([s["seconds"] for s in saves]), median(alone), median(during), len(during), saves[0]["bytes"]


def spread(name, ratios):
    print(f"{name}: {statistics.median(ratios):.3g} (median of {len(ratios)}; {min(ratios):.3g} to {max(ratios):.3g})")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="gpt2-mini")
    parser.add_argument("--folder", help="where the run directory is made")
    for name, value in {"steps": 60, "every": 12, "rounds": 5, "threads": 1}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        pathlib.Path(folder, "text.txt").write_text("".join(p.read_text() for p in sorted((HERE / "docs").glob("*.md"))))
        run(options, folder, False)  # measures the profile that all rounds share
        pauses, steps = [], []
        for number in range(1, options.rounds + 1):
            pause, _, alone, _, _, size = judge(run(options, folder, False), False)
            short, seconds, quiet, during, count, _ = judge(run(options, folder, True), True)
            print(f"round {number}  {size / 1e6:.1f} MB  synchronous: pause {1e3 * pause:.1f} ms, step {1e3 * alone:.1f} ms  asynchronous: "
                  f"pause {1e3 * short:.2f} ms, save {1e3 * seconds:.0f} ms, step {1e3 * quiet:.1f} ms, while writing {1e3 * during:.1f} ms "
                  f"({count} steps)  load {os.getloadavg()[0]:.1f}", flush=True)
            pauses.append(short / pause)
            if count:
                steps.append(during / quiet)
        spread("pause, asynchronous / synchronous", pauses)
        if steps:
            spread("step, while writing / alone", steps)


if __name__ == "__main__":
    main()
