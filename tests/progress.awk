# Reads ctest's output: each finished entry with the share of the work that is done and the time left, at the end the ten slowest and how to
# repeat what failed.
#   costs: file of "entry seconds" (tests/cmake/costs.txt); entries: the names that will run, one a line
BEGIN {
  while ((getline line < costs) > 0) if (line !~ /^#/) { split(line, words, " "); cost[words[1]] = words[2] }
  count = split(entries, names, "\n")
  for (i = 1; i <= count; i++) all += cost_of(names[i])
  started = systime_of()
}
function cost_of(name) { return name in cost ? cost[name] : 1 }
function systime_of(  now) { "date +%s" | getline now; close("date +%s"); return now }
# What is left takes as long for each recorded second as what is done took; the machine of the record may have been faster.
function left(  spent) {
  spent = systime_of() - started
  if (done < all / 50 || spent < 20) return ""
  spent = spent * (all - done) / done
  return spent < 90 ? sprintf(", %d s left", spent) : sprintf(", some %d min left", (spent + 30) / 60)
}
/^ +Start +[0-9]+: / { next }
/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: / {
  # "  3/490 Test  #12: name ...........   Passed    1.20 sec"; a failure has its stars before the seconds
  name = $0
  sub(/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: /, "", name)
  sub(/ .*/, "", name)
  seconds = $(NF - 1)
  done += cost_of(name)
  took[name] = seconds
  split($1, place, "/")
  verdict = /   Passed / ? "passed" : /Skipped/ ? "skipped" : "FAILED"
  if (verdict == "FAILED") failed[++failures] = name
  printf "%4d of %d  %-7s %-52s %7.1f s   %3d %% done%s\n", place[1], count, verdict, name, seconds, (all ? 100 * done / all : 100), left()
  fflush()
  next
}
{ print; fflush() }
END {
  print "\nThe slowest:"
  for (i = 1; i <= 10; i++) {
    most = ""
    for (name in took) if (most == "" || took[name] + 0 > took[most] + 0) most = name
    if (most == "") break
    printf "%10.1f s  %s\n", took[most], most
    delete took[most]
  }
  for (i = 1; i <= failures; i++) {
    if (i == 1) print "\nTo repeat what failed:"
    plain = failed[i]
    gsub(/\./, "[.]", plain)
    printf "  tests/run.sh -R '^%s$'\n", plain
  }
}
