#include "flotilla/comm/agree.hpp"

#include <algorithm>
#include <new>
#include <vector>

#include "flotilla/base/foreign_exception.hpp"
#include "rendezvous.hpp"

namespace flotilla::comm {
namespace {

int place(ErrorKind kind) noexcept {
  switch (kind) {
    case ErrorKind::internal: return 0;
    case ErrorKind::usage: return 1;
    case ErrorKind::bad_input: return 2;
    case ErrorKind::no_input: return 3;
    case ErrorKind::unavailable: return 4;
    case ErrorKind::temporary: return 5;
    case ErrorKind::no_plan: return 6;
    case ErrorKind::communication: break;
  }
  return 7;
}

constexpr char phase_mark = 'A';  // against a rank that is in another kind of agreement

std::string encode(const PhaseOutcome& outcome) {
  return std::string{phase_mark, outcome.ok ? '+' : '-', static_cast<char>('0' + place(outcome.kind))} + outcome.message;
}

ErrorKind kind_at(int place_) {
  for (const auto kind : {ErrorKind::internal, ErrorKind::usage, ErrorKind::bad_input, ErrorKind::no_input, ErrorKind::unavailable,
                          ErrorKind::temporary, ErrorKind::no_plan})
    if (place(kind) == place_) return kind;
  return ErrorKind::communication;
}

PhaseOutcome decode(const std::string& word) {
  if (word.size() < 3 || word[0] != phase_mark) return {false, ErrorKind::internal, "the ranks are not in the same phase of the program"};
  return {word[1] == '+', kind_at(word[2] - '0'), word.substr(3)};
}

struct Failure {
  Rank rank;
  PhaseOutcome outcome;
};

std::vector<Failure> failures_in(const Gathered& gathered) {
  std::vector<Failure> failures;
  for (std::size_t r = 0; r < gathered.words.size(); ++r) {
    const Rank rank{static_cast<int>(r)};
    if (std::ranges::find(gathered.missing, rank) != gathered.missing.end()) continue;
    if (const PhaseOutcome outcome = decode(gathered.words[r]); !outcome.ok) failures.push_back({rank, outcome});
  }
  return failures;
}

/// One line for `failures`, of which `first` is the one that counts.
std::string describe(const World& world, const std::vector<Failure>& failures, const Failure& first) {
  std::vector<Rank> same;
  std::vector<Rank> different;
  for (const Failure& failure : failures) (failure.outcome.message == first.outcome.message ? same : different).push_back(failure.rank);
  if (static_cast<int>(same.size()) == world.size()) return first.outcome.message;
  const std::string line = text(world.names(same), ": ", first.outcome.message);
  return different.empty() ? line : text(line, " (also failed: ", world.names(different), ")");
}

PhaseVerdict judge(const World& world, const Gathered& gathered, Seconds deadline) {
  const auto failures = failures_in(gathered);
  const std::string silence = gathered.missing.empty() ? "" : no_answer(world, gathered.missing, deadline);
  if (failures.empty()) return {silence.empty(), {silence.empty(), ErrorKind::communication, silence}};
  const auto first = std::ranges::min_element(failures, outranks, [](const Failure& failure) { return failure.outcome.kind; });
  const std::string line = describe(world, failures, *first);
  return {silence.empty(), {false, first->outcome.kind, silence.empty() ? line : text(line, "; ", silence)}};
}

}  // namespace

bool outranks(ErrorKind a, ErrorKind b) noexcept { return place(a) < place(b); }

void agree(const World& world, const PhaseOutcome& mine, Seconds deadline) {
  enforce(rendezvous(
      world, encode(mine), [&](const Gathered& gathered) { return judge(world, gathered, deadline); }, deadline));
}

PhaseOutcome outcome_of(std::string_view what, const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return {false, error.kind(), error.what()};
  } catch (const std::bad_alloc&) {
    return {false, ErrorKind::unavailable, text(what, ": out of memory")};
  } catch (const std::exception& error) {
    return {false, kind_of(error), text(what, ": ", in_words(error))};
  } catch (...) {
    return {false, ErrorKind::internal, text(what, ": an exception of unknown type")};
  }
  return {};
}

}  // namespace flotilla::comm
