#!/usr/bin/env python3
"""`flotilla tokenize` against PyPI's `tokenizers` on one thread each, in turns: processor time for the same texts.

usage: tokenize_benchmark.py FLOTILLA [MEGABYTES [ROUNDS]]

Flotilla's time contains its start, the tokenizer's JSON, the texts' JSON and the files; the other's is that of
encode_batch_fast() alone.
"""
import os
import resource
import statistics
import sys
import tempfile

os.environ["TOKENIZERS_PARALLELISM"] = "false"
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tokenizer"))
import compare_tokenizers as compare  # noqa: E402


def seconds(who, action):
    before = resource.getrusage(who)
    action()
    after = resource.getrusage(who)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    program = sys.argv[1]
    megabytes, rounds = float((sys.argv + ["", ""])[2] or 16), int((sys.argv + ["", "", ""])[3] or 5)
    sample = list(compare.machine_texts(4 << 20))
    texts = list(compare.machine_texts(int(megabytes * (1 << 20))))
    with tempfile.TemporaryDirectory() as folder:
        lines = os.path.join(folder, "texts.jsonl")
        compare.write_lines(lines, texts)
        split = compare.pieces_of(compare.pre_tokenizers.Split(compare.Regex(compare.LLAMA3), "isolated"), compare.byte_level())
        for name, tokenizer in [("gpt2", compare.trained(sample, compare.byte_level(True), vocabulary=16000)),
                                ("llama3", compare.trained(sample, split, vocabulary=16000, ignore_merges=True)),
                                ("llama2", compare.llama2(sample, True))]:
            path = os.path.join(folder, name + ".json")
            tokenizer.save(path)
            theirs, ours = [], []
            for _ in range(rounds):
                theirs.append(seconds(resource.RUSAGE_SELF, lambda: tokenizer.encode_batch_fast(texts, add_special_tokens=False)))
                ours.append(seconds(resource.RUSAGE_CHILDREN,
                                    lambda: compare.tokenized(program, folder, path, name, [lines], "--threads", "1")))
            ratio = statistics.median(a / b for a, b in zip(theirs, ours))
            print(f"{name}: {megabytes:g} MB, tokenizers {statistics.median(theirs):.2f} s, flotilla {statistics.median(ours):.2f} s, "
                  f"ratio {ratio:.2f}", flush=True)


main()
