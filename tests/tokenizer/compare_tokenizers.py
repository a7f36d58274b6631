#!/usr/bin/env python3
"""Holds `flotilla tokenize` to PyPI's `tokenizers` and `sentencepiece`: tokenizers trained here, real and hostile texts, equal tokens.

usage: compare_tokenizers.py FLOTILLA [MEGABYTES]

Exit code 77 where those packages are missing. Both times that are printed are of all processors; Flotilla's contain its start and JSON.
"""
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import unicodedata

try:
    import numpy
    import sentencepiece
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
except ImportError as missing:
    print(f"skipped: {missing}; pip install tokenizers sentencepiece numpy")
    sys.exit(77)

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")
SPECIAL = ["<|endoftext|>"]


def pieces_of(*steps):
    return pre_tokenizers.Sequence(list(steps))


def byte_level(regex=False):
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=regex)


def trained(texts, pre_tokenizer, normalizer=None, vocabulary=3000, specials=SPECIAL, alphabet=True, **options):
    tokenizer = Tokenizer(models.BPE(**options))
    tokenizer.pre_tokenizer = pre_tokenizer
    if normalizer:
        tokenizer.normalizer = normalizer
    initial = pre_tokenizers.ByteLevel.alphabet() if alphabet else []
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=vocabulary, special_tokens=specials, initial_alphabet=initial,
                                                             show_progress=False))
    return tokenizer


def llama2(texts, prepend):
    """Byte fallback: trained on words, published without a pre-tokenizer (or with Metaspace, as converted later)."""
    names = ["<unk>", "<s>", "</s>"]
    byte_tokens = [f"<0x{b:02X}>" for b in range(256)]
    tokenizer = trained(texts, pre_tokenizers.Metaspace(), specials=names + byte_tokens, alphabet=False, unk_token="<unk>",
                        byte_fallback=True, fuse_unk=True)
    document = json.loads(tokenizer.to_str())
    document["added_tokens"] = [t for t in document["added_tokens"] if t["content"] in names]
    if prepend:
        document["normalizer"] = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"},
                                  {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]}
        document["pre_tokenizer"] = None
    else:
        document["pre_tokenizer"] = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": False}
    return Tokenizer.from_str(json.dumps(document))


def with_added(texts):
    tokenizer = trained(texts, byte_level(True), normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")]))
    tokenizer.add_tokens([AddedToken("the", single_word=True), AddedToken("<left>", lstrip=True), AddedToken("<right>", rstrip=True),
                          AddedToken("  ", normalized=False), AddedToken("\ufb01n", normalized=True), AddedToken("<l", normalized=False)])
    tokenizer.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    return tokenizer


def hugging_face_tokenizers(texts):
    yield "gpt2", trained(texts, byte_level(True))
    llama3 = trained(texts, pieces_of(pre_tokenizers.Split(Regex(LLAMA3), "isolated"), byte_level()), ignore_merges=True)
    yield "llama3", llama3
    yield "qwen2", trained(texts, pieces_of(pre_tokenizers.Split(Regex(QWEN2), "isolated"), byte_level()), normalizers.NFC())
    yield "digits", trained(texts, pieces_of(pre_tokenizers.Digits(individual_digits=True), byte_level(True)))
    yield "llama2", llama2(texts, True)
    yield "llama2-metaspace", llama2(texts, False)
    yield "added", with_added(texts)
    for behavior in ["removed", "merged_with_previous", "merged_with_next", "contiguous"]:
        yield behavior, trained(texts, pieces_of(pre_tokenizers.Split(Regex(r"\s+|\p{P}"), behavior), byte_level()), vocabulary=1500)


def files_below(folders):
    for folder in folders:
        for place, below, names in os.walk(folder):
            below.sort()
            for name in sorted(names):
                yield os.path.join(place, name)


def machine_texts(most):
    """Real text: what of the machine's files is UTF-8, in parts of at most 64 KiB."""
    total = 0
    for path in files_below(["/usr/share/common-licenses", "/usr/share/doc", "/usr/include", "/usr/share", "/usr/lib/python3"]):
        try:
            if os.path.islink(path) or not 0 < os.path.getsize(path) < 8 << 20:
                continue
            text = open(path, encoding="utf-8", newline="").read()
        except (OSError, UnicodeDecodeError):
            continue
        if "\0" in text:
            continue
        for at in range(0, len(text), 1 << 16):
            yield text[at:at + (1 << 16)]
            total += min(1 << 16, len(text) - at)
            if total >= most:
                return


def assigned(point):
    return not 0xD800 <= point < 0xE000 and unicodedata.category(chr(point)) != "Cn"


def hostile_texts():
    dice = random.Random(7)
    for block in [*range(0, 0xF0000, 256), *range(0xF0000, 0x110000, 4096)]:  # of private use, some
        characters = [chr(p) for p in range(block, block + 256) if assigned(p)]
        if not characters:
            continue
        yield "".join(characters)
        dice.shuffle(characters)
        yield "".join(c + dice.choice(["", " ", "a", "1", "\n", "\u0301", "\t "]) for c in characters)
    yield "a" * (1 << 20)
    yield "".join(dice.choice("abcdefgh") for _ in range(1 << 20))
    yield " " * 70000 + "x" + "\n" * 70000 + "\t \r\n" * 5000
    yield "👩‍👩‍👧‍👦👨🏽‍💻🏳️‍🌈🇩🇪🇫🇷 e\u0301\u0323 \u1e9b\u0323 각 Å ﬁn"
    yield "line\r\nline\r\n\r\n  \r\n\rend\r"
    yield "nul\0nul\0\0 \0x"
    yield "it's IT'S don\u2019t we'll WE'LL I'\u017f x'S 'D'M'RE\u0130"
    yield "<|endoftext|> a <|im_start|>user the then the the. <left>  x  <right>  y<l <lef fin \ufb01n thethe_the  <|im_end|>   "
    yield "\u180e x\u180ey \u200b\u2028\u2029\u0085\u00a0\u3000.\ufeff"
    for _ in range(300):
        yield "".join(chr(p) for p in (dice.choice([dice.randrange(0x80), dice.randrange(0x3000), dice.randrange(0x20000)]) for _ in range(200))
                      if assigned(p))


def tokenized(program, folder, tokenizer, name, inputs, *options):
    out = os.path.join(folder, name)
    subprocess.run([program, "tokenize", "--tokenizer", tokenizer, *inputs, "-o", out, "--log-level=error", *options], check=True,
                   stdout=subprocess.DEVNULL)
    index = open(out + ".idx", "rb").read()
    kind, count = index[17], int.from_bytes(index[18:26], "little")
    lengths = numpy.frombuffer(index, numpy.int32, count, 34)
    tokens = numpy.fromfile(out + ".bin", numpy.uint16 if kind == 8 else numpy.int32)
    os.remove(out + ".idx"), os.remove(out + ".bin")
    return numpy.split(tokens.astype(numpy.int64), numpy.cumsum(lengths)[:-1])


def expect_equal(name, texts, theirs, ours, same=lambda expected, got: False):
    kept = [(text, tokens) for text, tokens in zip(texts, theirs) if len(tokens) > 0]
    if len(kept) != len(ours):
        sys.exit(f"{name}: {len(ours)} documents, expected {len(kept)}")
    for (text, expected), got in zip(kept, ours):
        if got.tolist() == list(expected) or same(list(expected), got.tolist()):
            continue
        at = next((i for i, (a, b) in enumerate(zip(expected, got)) if a != b), min(len(expected), len(got)))
        sys.exit(f"{name}: token {at}: expected {list(expected[at:at + 5])}, got {got[at:at + 5].tolist()}, in {text[:80]!r}")


def write_lines(path, texts):
    with open(path, "w", encoding="utf-8") as out:
        for number, text in enumerate(texts):
            out.write(json.dumps({"id": number, "text": text}, ensure_ascii=number % 2 == 0) + "\n")


NORMAL_FORMS = {"qwen2": ("NFC", normalizers.NFC()), "added": ("NFKC", normalizers.NFKC())}


def in_this_unicode(name, texts):
    """The library's normal forms are those of Unicode 13: marks that came later are not put in order. Such texts it gets normalized."""
    if name not in NORMAL_FORMS:
        return texts
    form, theirs = NORMAL_FORMS[name]
    fixed = [unicodedata.normalize(form, text) for text in texts]
    newer = [theirs.normalize_str(text) != wanted for text, wanted in zip(texts, fixed)]
    print(f"{name}: {sum(newer)} texts with characters newer than the library's Unicode are normalized for it")
    return [wanted if new else text for text, wanted, new in zip(texts, fixed, newer)]


def compare_hugging_face(program, folder, texts, lines, sample):
    for name, tokenizer in hugging_face_tokenizers(sample):
        path = os.path.join(folder, name + ".json")
        tokenizer.save(path)
        given = in_this_unicode(name, texts)
        start = time.perf_counter()
        theirs = [e.ids for e in tokenizer.encode_batch(given, add_special_tokens=False)]
        middle = time.perf_counter()
        expect_equal(name, texts, theirs, tokenized(program, folder, path, name, [lines]))
        report(name, theirs, middle - start, time.perf_counter() - middle)


def compare_sentencepiece(program, folder, texts, lines, sample):
    for kind in ["bpe", "unigram"]:
        prefix = os.path.join(folder, "spm-" + kind)
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(line for text in sample for line in text.splitlines()), model_prefix=prefix,
                                                 model_type=kind, vocab_size=3000, byte_fallback=kind == "bpe", minloglevel=2,
                                                 character_coverage=0.9995, num_threads=2)
        processor = sentencepiece.SentencePieceProcessor(model_file=prefix + ".model")
        start = time.perf_counter()
        theirs = [processor.encode(text) for text in texts]
        middle = time.perf_counter()
        scores = numpy.array([processor.get_score(piece) for piece in range(processor.get_piece_size())])
        ties = []

        def tie(expected, got):
            """Versions of the library choose differently between segmentations of the same score."""
            ties.append(len(expected))
            return kind == "unigram" and abs(scores[expected].sum() - scores[got].sum()) < 1e-6 * abs(scores[expected].sum())

        expect_equal("sentencepiece " + kind, texts, theirs, tokenized(program, folder, prefix + ".model", kind, [lines]), tie)
        print(f"sentencepiece {kind}: {len(ties)} documents of equal scores are segmented otherwise")
        report("sentencepiece " + kind, theirs, middle - start, time.perf_counter() - middle)


def compare_invalid(program, folder):
    """Text files: what is no UTF-8 becomes what Python's errors="replace" makes of it."""
    dice = random.Random(11)
    hostile = [b"\xff\xfe", b"a\xc3", b"\xe2\x82 x", b"\xed\xa0\x80", b"\xf0\x9f\x98 y\xf5\x80", b"\xc0\xaf\xe0\x80\x80\xf4\x90\x80\x80"]
    hostile += [bytes(dice.randrange(256) for _ in range(2000)) for _ in range(20)]
    hostile += [bytes(dice.choice([0xe2, 0x82, 0xac, 0xf0, 0x9f, 0x98, 0x80, 0x41, 0xed]) for _ in range(2000)) for _ in range(20)]
    paths = []
    for number, text in enumerate(hostile):
        paths.append(os.path.join(folder, f"hostile-{number}.txt"))
        open(paths[-1], "wb").write(text)
    texts = [text.decode("utf-8", errors="replace") for text in hostile]
    path = os.path.join(folder, "gpt2.json")
    theirs = [e.ids for e in Tokenizer.from_file(path).encode_batch(texts, add_special_tokens=False)]
    expect_equal("invalid UTF-8", texts, theirs, tokenized(program, folder, path, "invalid", paths))


def report(name, theirs, seconds, ours):
    print(f"{name}: {len(theirs)} documents, {sum(map(len, theirs))} tokens, 0 differences; encode_batch {seconds:.1f} s, flotilla {ours:.1f} s",
          flush=True)


def main():
    program, megabytes = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 2
    sample = list(machine_texts(1 << 20))
    texts = list(machine_texts(int(megabytes * (1 << 20)))) + list(hostile_texts())
    with tempfile.TemporaryDirectory() as folder:
        lines = os.path.join(folder, "texts.jsonl")
        write_lines(lines, texts)
        compare_hugging_face(program, folder, texts, lines, sample)
        compare_sentencepiece(program, folder, texts, lines, sample)
        compare_invalid(program, folder)


if __name__ == "__main__":
    main()
