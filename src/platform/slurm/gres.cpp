#include <algorithm>
#include <charconv>
#include <cmath>

#include "answer_fields.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/slurm/slurm_cluster.hpp"

namespace flotilla::slurm {
namespace {

/// Pieces between commas that stand outside of parentheses: "gpu:a100:4(S:0,2),nvme:1".
std::vector<std::string> pieces_of(const std::string& text) {
  std::vector<std::string> pieces(1);
  int depth = 0;
  for (char c : text) {
    if (c == '(') ++depth;
    if (c == ')') depth = std::max(depth - 1, 0);
    if (c == ',' && depth == 0)
      pieces.emplace_back();
    else
      pieces.back() += c;
  }
  return pieces;
}

/// "4", "2K"; -1 where it is no count.
int count_of(const std::string& word) {
  if (word.empty()) return -1;
  const std::string units = "KMG";
  const auto unit = units.find(upper(word.substr(word.size() - 1)));
  if (unit == units.npos) return number_of(word);
  const int value = number_of(word.substr(0, word.size() - 1));
  const double count = value * std::pow(1024.0, static_cast<double>(unit) + 1);
  return value < 0 || count > 1e9 ? -1 : static_cast<int>(count);
}

Gres gres_of(const std::string& piece) {
  auto words = split(std::string_view{piece}.substr(0, piece.find('(')), ':');
  Gres gres{words.front(), "", 1};
  words.erase(words.begin());
  std::erase(words, "no_consume");
  if (!words.empty() && count_of(words.back()) >= 0) {
    gres.count = count_of(words.back());
    words.pop_back();
  }
  if (gres.name.empty() || words.size() > 1)
    throw Error{ErrorKind::bad_input, text("gres ", in_quotes(piece), "; expected NAME, NAME:COUNT or NAME:TYPE:COUNT")};
  if (!words.empty()) gres.type = words.front();
  return gres;
}

double weight_of(const std::string& word, const std::string& key) {
  double value = 0;
  const auto [rest, failed] = std::from_chars(word.data(), word.data() + word.size(), value);
  const std::string unit = upper(std::string_view{rest, static_cast<std::size_t>(word.data() + word.size() - rest)});
  const std::string units = "KMGTP";
  const auto place = units.find(unit.empty() ? "M" : unit);
  if (failed != std::errc{} || !std::isfinite(value) || value < 0 || unit.size() > 1 || place == units.npos)
    throw Error{ErrorKind::bad_input,
                text("TRESBillingWeights: ", printable(key), "=", printable(word), "; expected a number, with a unit for Mem")};
  // Of memory: of a MiB where there is no unit, and GiB is what we count in.
  return key == "MEM" ? value * std::pow(1024.0, 2 - static_cast<double>(place)) : value;
}

}  // namespace

std::vector<Gres> parse_gres(const std::string& text) {
  std::vector<Gres> all;
  if (text.empty() || text == "(null)" || text == "N/A") return all;
  for (const auto& piece : pieces_of(text)) {
    if (piece.empty()) continue;
    const auto gres = gres_of(piece.starts_with("gres:") || piece.starts_with("gres/") ? piece.substr(5) : piece);
    const auto same = std::ranges::find_if(all, [&](const auto& other) { return other.name == gres.name && other.type == gres.type; });
    if (same == all.end())
      all.push_back(gres);
    else
      same->count = static_cast<int>(std::min<std::int64_t>(std::int64_t{same->count} + gres.count, 1'000'000'000));
  }
  return all;
}

BillingWeights parse_billing_weights(const std::string& words) {
  BillingWeights weights;
  if (words.empty() || words == "(null)") return weights;
  for (const auto& word : split(words, ',')) {
    const auto equals = word.find('=');
    if (word.empty()) continue;
    FLOTILLA_REQUIRE(equals != word.npos, ErrorKind::bad_input, "TRESBillingWeights: ", in_quotes(word), "; expected NAME=WEIGHT");
    const std::string key = upper(std::string_view{word}.substr(0, equals));
    const double weight = weight_of(word.substr(equals + 1), key);
    if (key == "CPU") weights.cpu = weight;
    if (key == "MEM") weights.gibibyte = weight;
    if (key == "NODE") weights.node = weight;
    if (key.starts_with("GRES/")) weights.gres[word.substr(5, equals - 5)] = weight;
  }
  return weights;
}

}  // namespace flotilla::slurm
