#include "heartbeat.hpp"

#include <algorithm>
#include <cstring>
#include <span>

#include "flotilla/base/text.hpp"

namespace flotilla::comm {
namespace {

constexpr int beat_tag = 0;

template <std::size_t N>
void store(std::array<char, N>& place, const std::string& text) {
  place.fill('\0');
  std::copy_n(text.begin(), std::min(text.size(), N - 1), place.begin());
}

template <std::size_t N>
std::string load(const std::array<char, N>& place) {
  return {place.begin(), std::find(place.begin(), place.end(), '\0')};
}

/// In a time that says nothing of where they differ.
bool same(const Secret& a, const Secret& b) {
  unsigned differs = 0;
  for (std::size_t i = 0; i < a.size(); ++i) differs |= static_cast<unsigned>(a[i] ^ b[i]);
  return differs == 0;
}

}  // namespace

std::string to_string(const Trouble& trouble) {
  const std::string who = text("rank ", trouble.rank, " on ", trouble.host);
  if (trouble.kind == Trouble::Kind::failed) return text(who, " failed: ", trouble.words.line);
  return text(who, " has been silent for ", trouble.silence, " (stopped, dead or cut off?)");
}

void Beat::set(const StopRequest& request) {
  stop_origin = request.origin.value;
  stop_urgent = request.urgent ? 1 : 0;
  store(stop_reason, request.reason);
}

void Beat::set(const Trouble& trouble) {
  trouble_rank = trouble.rank.value;
  trouble_code = static_cast<std::int32_t>(trouble.words.code);
  trouble_silent = trouble.kind == Trouble::Kind::silent;
  silence_seconds = trouble.silence.value;
  store(trouble_line, trouble.words.line);
}

std::optional<StopRequest> Beat::stop() const {
  if (stop_origin < 0) return std::nullopt;
  return StopRequest{Rank{stop_origin}, load(stop_reason), stop_urgent != 0};
}

std::optional<Trouble> Beat::trouble(const World& world) const {
  if (trouble_rank < 0) return std::nullopt;
  return Trouble{trouble_silent != 0 ? Trouble::Kind::silent : Trouble::Kind::failed,
                 Rank{trouble_rank},
                 world.host(Rank{trouble_rank}),
                 {silence_seconds},
                 {static_cast<ExitCode>(trouble_code), load(trouble_line)}};
}

PeerLine::PeerLine(const World& world, Rank peer, const Secret& secret, Seconds time)
    : world_{&world}, peer_{peer}, secret_{secret}, heard_{time} {}

std::optional<Beat> PeerLine::receive(Seconds time) {
  if (!listening_) return std::nullopt;
  const auto place = std::as_writable_bytes(std::span{&incoming_, 1});
  if (!in_.active()) in_ = world_->watch().receive(place, peer_.value, beat_tag);
  if (!in_.test() || !same(incoming_.secret, secret_)) return std::nullopt;
  heard_ = time;
  return incoming_;
}

bool PeerLine::send(const Beat& beat) {
  if (!out_.test()) return false;
  outgoing_ = beat;
  outgoing_.secret = secret_;
  due_ = false;
  out_ = world_->watch().send(std::as_bytes(std::span{&outgoing_, 1}), peer_.value, beat_tag);
  return true;
}

}  // namespace flotilla::comm
