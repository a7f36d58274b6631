#include "reshape.hpp"

#include <algorithm>
#include <bit>

#include "flotilla/schedule/schedule.hpp"

namespace flotilla::search::pool {
namespace {

class Reshaping {
 public:
  Reshaping(const CandidatePlan& candidate, const DevicePool& device_pool, const std::function<void(CandidatePlan&&)>& visit)
      : candidate_{candidate}, device_pool_{device_pool}, visit_{visit} {}

  void run() {
    for (std::size_t s = 0; s < stages(); ++s) {
      for (std::size_t c = 0; c < candidate_.pipelines.size(); ++c) other_places(s, c);
      other_degrees(s);
      split(s);
      if (s + 1 < stages()) merge(s);
      for (std::size_t to = s + 2; to < stages(); ++to) move_block(s, to);
      for (std::size_t other = s + 1; other < stages(); ++other) exchange(s, other);
    }
    if (!device_pool_.request.restrictions.even_layers)
      for (std::size_t s = 0; s <= stages(); ++s) insert(s);
    fold();
    unfold();
  }

 private:
  std::size_t stages() const { return candidate_.pipelines.front().slots.size(); }

  /// One stage has nothing to schedule.
  void offer(CandidatePlan&& other) {
    if (other.stages() == 1) other.schedule = schedule::usual_schedule(), other.chunks = 1;
    if (device_pool_.holds(other)) visit_(std::move(other));
  }

  void other_places(std::size_t s, std::size_t c) {
    for (int p = 0; p < static_cast<int>(device_pool_.places.size()); ++p) {
      const PipelineReplica& pipeline = candidate_.pipelines[c];
      if (pipeline.slots[s].place == p) continue;
      CandidatePlan all = candidate_;
      all.pipelines[c].slots[s].place = p;
      if (device_pool_.holds(all))
        visit_(std::move(all));
      else if (const int degree = widest_of_idle(p, pipeline.count); degree > 0 && degree < pipeline.slots[s].tensor)
        all.pipelines[c].slots[s].tensor = degree, offer(std::move(all));
      if (pipeline.count == 1) continue;
      CandidatePlan one = candidate_;
      --one.pipelines[c].count;
      PipelineReplica apart = pipeline;
      apart.count = 1;
      apart.slots[s].place = p;
      one.pipelines.insert(one.pipelines.begin() + static_cast<std::ptrdiff_t>(c) + 1, std::move(apart));
      offer(std::move(one));
    }
  }

  void other_degrees(std::size_t s) {
    for (const bool larger : {false, true}) {
      CandidatePlan other = candidate_;
      if (change_degree(other, s, larger)) offer(std::move(other));
    }
  }

  bool change_degree(CandidatePlan& candidate, std::size_t s, bool larger) const {
    for (PipelineReplica& pipeline : candidate.pipelines) {
      int& tensor = pipeline.slots[s].tensor;
      if (!device_pool_.has_degree(larger ? tensor * 2 : tensor / 2)) return false;
      tensor = larger ? tensor * 2 : tensor / 2;
    }
    return true;
  }

  /// From one stage to another that is not beside it, either way: the stages between keep as many.
  void move_block(std::size_t s, std::size_t to) {
    if (device_pool_.request.restrictions.even_layers) return;
    for (const int step : {-1, 1}) {
      CandidatePlan other = candidate_;
      for (std::size_t cut = s + 1; cut <= to; ++cut) other.cuts[cut] += step;
      if (other.cuts[s] < other.cuts[s + 1] && other.cuts[to] < other.cuts[to + 1]) offer(std::move(other));
    }
  }

  void split(std::size_t s) {
    const int first = candidate_.cuts[s], last = candidate_.cuts[s + 1];
    if (last - first < 2 || device_pool_.request.restrictions.even_layers) return;
    CandidatePlan other = candidate_;
    const auto at_s = static_cast<std::ptrdiff_t>(s);
    other.cuts.insert(other.cuts.begin() + at_s + 1, (first + last) / 2);
    other.recompute.insert(other.recompute.begin() + at_s, candidate_.recompute[s]);
    for (PipelineReplica& pipeline : other.pipelines) pipeline.slots.insert(pipeline.slots.begin() + at_s, pipeline.slots[s]);
    offer(std::move(other));
  }

  /// On the devices of the first of the two, and on those of the second.
  void merge(std::size_t s) {
    if (device_pool_.request.restrictions.even_layers) return;
    for (const std::size_t gone : {s + 1, s}) {
      CandidatePlan other = candidate_;
      other.cuts.erase(other.cuts.begin() + static_cast<std::ptrdiff_t>(s) + 1);
      other.recompute.erase(other.recompute.begin() + static_cast<std::ptrdiff_t>(gone));
      for (PipelineReplica& pipeline : other.pipelines) pipeline.slots.erase(pipeline.slots.begin() + static_cast<std::ptrdiff_t>(gone));
      offer(std::move(other));
    }
  }

  /// Two stages change devices.
  void exchange(std::size_t s, std::size_t other_stage) {
    CandidatePlan other = candidate_;
    for (PipelineReplica& pipeline : other.pipelines) std::swap(pipeline.slots[s], pipeline.slots[other_stage]);
    if (other.pipelines != candidate_.pipelines) offer(std::move(other));
  }

  /// A stage before stage `s` on devices that stand idle, in groups as large as they go, or of half the size: with half the layers of its
  /// larger neighbour.
  void insert(std::size_t s) {
    const auto layers = [&](std::size_t stage) { return candidate_.cuts[stage + 1] - candidate_.cuts[stage]; };
    const std::size_t halved = s == stages() || (s > 0 && layers(s - 1) > layers(s)) ? s - 1 : s;
    if (layers(halved) < 2) return;
    for (int place = 0; place < static_cast<int>(device_pool_.places.size()); ++place) {
      const int degree = widest_of_idle(place, pipelines_of(candidate_));
      for (const int tensor : {degree, degree / 2})
        if (tensor > 0) insert(s, halved, {place, tensor});
    }
  }

  void insert(std::size_t s, std::size_t halved, const Slot& slot) {
    CandidatePlan other = candidate_;
    const auto position = static_cast<std::ptrdiff_t>(s);
    other.cuts.insert(other.cuts.begin() + static_cast<std::ptrdiff_t>(halved) + 1,
                      (candidate_.cuts[halved] + candidate_.cuts[halved + 1]) / 2);
    other.recompute.insert(other.recompute.begin() + position, candidate_.recompute[halved]);
    for (PipelineReplica& pipeline : other.pipelines) pipeline.slots.insert(pipeline.slots.begin() + position, slot);
    offer(std::move(other));
  }

  /// The largest degree at which idle devices of the place make so many groups; 0: none.
  int widest_of_idle(int place, int groups) const {
    int idle = device_pool_.places[at(place)].count;
    for (const PipelineReplica& pipeline : candidate_.pipelines)
      for (const Slot& slot : pipeline.slots) idle -= slot.place == place ? slot.tensor * pipeline.count : 0;
    const int most = std::min(idle / groups, device_pool_.types[at(device_pool_.places[at(place)].type)].widest);
    const auto wider = std::ranges::upper_bound(device_pool_.degrees, most);
    return wider == device_pool_.degrees.begin() ? 0 : *std::prev(wider);
  }

  /// Half as many stages in twice as many pipelines: of every two neighbours each becomes a stage with the layers of both.
  void fold() {
    if (stages() % 2 != 0 || device_pool_.request.restrictions.even_layers) return;
    CandidatePlan other = candidate_;
    other.cuts.assign(1, 0), other.recompute.clear(), other.pipelines.clear();
    for (std::size_t s = 0; s < stages(); s += 2) {
      other.cuts.push_back(candidate_.cuts[s + 2]);
      other.recompute.push_back(std::max(candidate_.recompute[s], candidate_.recompute[s + 1]));
    }
    for (const PipelineReplica& pipeline : candidate_.pipelines)
      for (const std::size_t offset : {0, 1}) {
        PipelineReplica half = pipeline;
        half.slots.clear();
        for (std::size_t s = offset; s < stages(); s += 2) half.slots.push_back(pipeline.slots[s]);
        if (offset == 1 && half.slots == other.pipelines.back().slots)
          other.pipelines.back().count *= 2;
        else
          other.pipelines.push_back(std::move(half));
      }
    offer(std::move(other));
  }

  /// Twice as many stages in half as many pipelines.
  void unfold() {
    if (device_pool_.request.restrictions.even_layers) return;
    CandidatePlan other = candidate_;
    other.cuts.assign(1, 0), other.recompute.clear();
    for (std::size_t s = 0; s < stages(); ++s) {
      const int first = candidate_.cuts[s], last = candidate_.cuts[s + 1];
      if (last - first < 2) return;
      other.cuts.push_back((first + last) / 2), other.cuts.push_back(last);
      other.recompute.insert(other.recompute.end(), 2, candidate_.recompute[s]);
    }
    for (PipelineReplica& pipeline : other.pipelines) {
      if (pipeline.count % 2 != 0) return;
      pipeline.count /= 2;
      std::vector<Slot> twice;
      for (const Slot& slot : pipeline.slots) twice.insert(twice.end(), 2, slot);
      pipeline.slots = std::move(twice);
    }
    offer(std::move(other));
  }

  const CandidatePlan& candidate_;
  const DevicePool& device_pool_;
  const std::function<void(CandidatePlan&&)>& visit_;
};

}  // namespace

void for_each_reshaping(const CandidatePlan& candidate, const DevicePool& device_pool, const std::function<void(CandidatePlan&&)>& visit) {
  if (!candidate.pipelines.empty()) Reshaping{candidate, device_pool, visit}.run();
}

}  // namespace flotilla::search::pool
