#!/usr/bin/env python3
"""Counts what a stranger meets in a source tree: lines and arrows by module, names that several types share, files that state a
schedule's rule, public headers that no other module includes, long sentences in documents.

    tests/house/architecture_metrics.py [TREE ...]     one column for each tree, e.g. a worktree of an earlier commit and .
"""
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

SOURCE = (".cpp", ".hpp")
LONG_SENTENCE = 40  # words


def sources(root, *folders):
    return [p for folder in folders for p in sorted((root / folder).rglob("*")) if p.suffix in SOURCE]


def lines(paths):
    return sum(len(p.read_text(errors="replace").splitlines()) for p in paths)


def module_of(root, path):
    parts = path.relative_to(root).parts
    if parts[0] == "include":
        return parts[2]
    return parts[1] if parts[1] in ("base", "app") else parts[2]


def lines_by_module(root):
    total = defaultdict(int)
    for path in sources(root, "src", "include"):
        total[module_of(root, path)] += lines([path])
    return total


def arrows(root):
    count = 0
    for cmake in (root / "src").rglob("CMakeLists.txt"):
        for call in re.findall(r"flotilla_add_room\(([^)]*)\)", cmake.read_text()):
            depends = re.search(r"DEPENDS\s+([a-z_\s]+?)(?:\s+[A-Z]|$)", call)
            count += len(depends.group(1).split()) if depends else 0
    return count


def shared_type_names(root, nested=True):
    """Names that more than one struct, class or enum of src/ and include/ is defined under, and the number of those types.
    `Outer::Inner` counts as Inner, and as nested; a specialization is no other type than its template. Without `nested`: types that stand in a
    namespace, in headers. The others are read beside what they are nested in, or in one file only."""
    places = defaultdict(list)
    pattern = re.compile(r"^( *)(?:template\s*<[^>]*>\s*)?(?:struct|class|enum class)\s+((?:[A-Z]\w*::)*)([A-Z]\w*)\b(?!<)[^;()]*\{", re.M)
    for path in sources(root, "src", "include"):
        for indent, outer, name in pattern.findall(path.read_text(errors="replace")):
            if nested or (not indent and not outer and path.suffix == ".hpp"):
                places[name].append(path)
    shared = {name: paths for name, paths in places.items() if len(paths) > 1}
    return len(shared), sum(len(paths) for paths in shared.values())


def schedule_rules(root):
    """Files outside the schedule module, files and command line that decide by the kind of schedule."""
    rule = re.compile(r"ScheduleKind::\w+|in_flight\(|\bis_zero_bubble|\bwarm_?up")
    elsewhere = [p for p in sources(root, "src/core", "src/runtime") if module_of(root, p) not in ("schedule", "plan")]
    return len([p for p in elsewhere if rule.search(p.read_text(errors="replace"))])


def unshared_public_headers(root):
    """Public headers that no other module includes, nor a public header that one includes: the rule of tests/house/fence_test.cpp."""
    used = defaultdict(set)
    for path in sources(root, "src", "include", "tests"):
        module = "tests" if path.relative_to(root).parts[0] == "tests" else module_of(root, path)
        for header in re.findall(r'#include\s+"(flotilla/[^"]+)"', path.read_text(errors="replace")):
            used[header].add(module)
    public = {str(p.relative_to(root / "include")): p for p in sources(root, "include")}
    reached = [name for name, path in public.items() if used[name] - {module_of(root, path), "tests"}]
    for name in reached:
        if name in public:
            further = re.findall(r'#include\s+"(flotilla/[^"]+)"', public[name].read_text(errors="replace"))
            reached.extend(header for header in further if header not in reached)
    return len(set(public) - set(reached))


def prose(text):
    text = re.sub(r"```.*?```", "\n\n", text, flags=re.S)
    text = re.sub(r"^( {4}|\||#).*$", "\n", text, flags=re.M)
    text = re.sub(r"`[^`]*`", "CODE", text)
    text = re.sub(r"^\s*(?:[-*]|\d+\.)\s", "\n\n", text, flags=re.M)
    return text


def long_sentences(root):
    found = 0
    for path in [root / "README.md", *sorted((root / "docs").rglob("*.md"))]:
        if "measurements" in path.parts or "changes" in path.parts or not path.exists():
            continue
        for paragraph in re.split(r"\n\s*\n", prose(path.read_text())):
            for sentence in re.split(r"(?<=[.!?;:])\s+", " ".join(paragraph.split())):
                found += len(sentence.split()) > LONG_SENTENCE
    return found


def tests_listed(root):
    return sum(len(re.findall(r"^\s*(?:flotilla_)?add_(?:mpi_)?test\(", p.read_text(), re.M)) for p in (root / "tests").rglob("CMakeLists.txt"))


def metrics(root):
    names, types = shared_type_names(root)
    outer_names, outer_types = shared_type_names(root, nested=False)
    by_module = lines_by_module(root)
    app = [p for p in (root / "src/app").iterdir() if p.suffix in SOURCE]
    row = {
        "lines of src and include": sum(by_module.values()),
        "lines of tests": lines(sources(root, "tests")),
        "modules": len(by_module),
        "arrows between modules": arrows(root),
        "type names defined more than once": names,
        "types behind those names": types,
        "  of namespaces, in headers": outer_names,
        "  types behind these": outer_types,
        "files deciding by schedule outside its module": schedule_rules(root),
        "public headers only their own module includes": unshared_public_headers(root),
        "files directly in src/app": len(app),
        f"sentences over {LONG_SENTENCE} words": long_sentences(root),
        "test programs": tests_listed(root),
    }
    row.update({f"  {name}": count for name, count in sorted(by_module.items())})
    return row


def main():
    trees = [Path(argument) for argument in sys.argv[1:]] or [Path(__file__).resolve().parents[2]]
    columns = [metrics(tree) for tree in trees]
    labels = list(dict.fromkeys(label for column in columns for label in column))
    width = max(map(len, labels))
    print("".ljust(width), *[tree.name.rjust(10) for tree in trees])
    for label in labels:
        print(label.ljust(width), *[str(column.get(label, "-")).rjust(10) for column in columns])


if __name__ == "__main__":
    main()
