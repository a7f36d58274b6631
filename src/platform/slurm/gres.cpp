#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

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

/// Slurm up to 24.05 writes "(null)" for a gres without a type; anything else between parentheses tells sockets, places, shares.
std::string without_remarks(std::string piece) {
  if (const auto nothing = piece.find(":(null)"); nothing != piece.npos) piece.erase(nothing, std::string_view{":(null)"}.size());
  return piece.substr(0, piece.find('('));
}

/// Nothing for what is written another way and is no GPU: nobody asks for it.
std::optional<Gres> gres_of(const std::string& piece) {
  auto words = split(without_remarks(piece), ':');
  Gres gres{words.front(), "", 1};
  words.erase(words.begin());
  std::erase(words, "no_consume");
  if (!words.empty() && count_of(words.back()) >= 0) {
    gres.count = count_of(words.back());
    words.pop_back();
  }
  if (gres.name == "gpu" && words.size() > 1)
    throw Error{ErrorKind::bad_input, text("gres ", in_quotes(piece), "; expected NAME, NAME:COUNT or NAME:TYPE:COUNT")};
  if (gres.name.empty() || words.size() > 1) return std::nullopt;
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
    if (!gres) continue;
    const auto same = std::ranges::find_if(all, [&](const auto& other) { return other.name == gres->name && other.type == gres->type; });
    if (same == all.end())
      all.push_back(*gres);
    else
      same->count += std::min(gres->count, std::numeric_limits<std::int64_t>::max() - same->count);
  }
  return all;
}

int gpus_in_shares(const std::string& gres_used) {
  int on = 0;
  for (const auto& piece : pieces_of(gres_used)) {
    if (!piece.starts_with("shard") && !piece.starts_with("mps")) continue;
    const auto open = piece.find_last_of('('), close = piece.find_last_of(')');
    const auto gres = gres_of(piece);
    if (open == piece.npos || close == piece.npos || close < open || piece.find('/', open) == piece.npos) {
      on += gres && gres->count > 0 ? 1 : 0;  // an older Slurm does not say on which: on one at least
      continue;
    }
    for (const auto& share : split(std::string_view{piece}.substr(open + 1, close - open - 1), ','))
      if (number_of(std::string_view{share}.substr(0, share.find('/'))) > 0) ++on;
  }
  return on;
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
    if (key.starts_with("GRES/")) weights.gres[lower(word.substr(5, equals - 5))] = weight;
  }
  return weights;
}

}  // namespace flotilla::slurm
