#!/usr/bin/env bash
# Fails if a sentence of the documents has more than 40 words or a line of prose more than 140 characters, and names each of them.
#
#   sentences.sh SOURCE_DIR [WORDS]     WORDS: another limit than 40
#
# Counted are README.md, CHANGELOG.md, tests/*/README.md and docs/, except docs/measurements/ (laboratory notes keep their wording; their lines are checked).
# A sentence ends at ".", "!" or "?" before a blank, and with its paragraph, list item, heading or table cell. Code blocks are left out, and
# a link counts with its text. A word holds a letter or a digit. "<!-- answer: COMMAND -->" (answers.sh) is no prose.
set -euo pipefail
cd "${1:?the source directory}"

find README.md CHANGELOG.md docs tests/*/README.md -name '*.md' | LC_ALL=C sort | LC_ALL=C xargs awk -v most="${2:-40}" '
function count(text,    words, i, n, total) {
  n = split(text, words, /[ \t]+/)
  for (i = 1; i <= n; ++i) if (words[i] ~ /[[:alnum:]]/) ++total
  return total
}
function sentence(text,    n) {
  n = count(text)
  if (n == 0) return
  ++sentences
  if (n > 25) ++long_ones
  if (n <= most || page ~ /^docs\/measurements\//) return
  ++too_long
  printf "%s:%d: %d words: %s\n", page, where, n, text
}
# The text of a paragraph, an item or a cell, sentence by sentence.
function flush(    text, end) {
  text = pending
  pending = ""
  gsub(/\]\([^)]*\)/, "]", text)
  while (match(text, /[.!?][)"*`]*[ \t]+[^ \ta-z]/)) {
    end = RSTART
    sentence(substr(text, 1, end))
    text = substr(text, end + 1)
  }
  sentence(text)
}
function add(text) {
  if (pending == "") {
    page = FILENAME
    where = FNR
  }
  pending = pending " " text
}
FNR == 1 { flush(); fenced = 0; blank = 1; listed = 0 }
/^[ ]*```/ { flush(); fenced = !fenced; next }
fenced { next }
/^[ \t]*$/ { flush(); blank = 1; next }
/^<!-- answer: .* -->$/ { flush(); next }
/^    / && blank && !listed { next }                                         # an indented code block
/^\|/ {
  flush()
  n = split($0, cells, /\|/)
  for (i = 1; i <= n; ++i) if (cells[i] !~ /^[-: ]*$/) { add(cells[i]); flush() }
  blank = 0
  next
}
{
  characters = $0
  gsub(/[\200-\277]/, "", characters)                                         # of each character of UTF-8 the first byte is left
  if (length(characters) > 140 && $0 !~ /^[^ ]*$/) {
    ++wide
    printf "%s:%d: a line of %d characters\n", FILENAME, FNR, length(characters)
  }
}
/^#/ { flush(); add($0); flush(); blank = 1; listed = 0; next }
/^[ ]*([-*]|[0-9]+\.) / { flush(); listed = 1 }
!/^[ ]/ && !/^[-*]|^[0-9]+\. / { if (blank) listed = 0 }
{ blank = 0; add($0) }
END {
  flush()
  printf "%d sentences: %d of more than 25 words, %d of more than %d; %d lines of prose of more than 140 characters\n",
    sentences, long_ones, too_long, most, wide
  exit too_long > 0 || wide > 0
}'
