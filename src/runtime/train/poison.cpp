#include "poison.hpp"

#include <algorithm>
#include <map>

namespace flotilla::train {

using program::Mode;

namespace {

constexpr unsigned char not_a_number = 0xFF;  // every byte: NaN in fp32, bf16 and fp64, and no token id

}  // namespace

Poison::Poison(Binding& binding, compute::Backend& backend, bool enabled) : backend_{backend} {
  if (!enabled) return;
  auto& list = binding.issued_instructions();
  dead_.resize(list.size());
  const auto& c = binding.rank_class();
  std::map<std::pair<int, int>, std::size_t> last_use;  // (buffer, instance) -> instruction
  const auto keep_for_mpi = [&](const std::pair<int, int>& cell, std::size_t user) {
    if (on_comm_thread(*list[user].instruction)) return;  // the other thread may have more of it in flight
    const auto& buffer = c.buffers[static_cast<std::size_t>(cell.first)];
    dead_[user].push_back({binding.buffer(cell.first, cell.second), static_cast<std::size_t>(buffer.size.count)});
  };
  for (std::size_t i = 0; i < list.size(); ++i)
    for (const auto& access : list[i].instruction->accesses) {
      const auto& buffer = c.buffers[static_cast<std::size_t>(access.buffer)];
      if (buffer.persistent) continue;
      const std::pair cell{access.buffer, list[i].microbatch % buffer.copies};
      const auto before = last_use.find(cell);
      if (access.mode == Mode::write && before != last_use.end() && before->second != i) keep_for_mpi(cell, before->second);
      last_use[cell] = i;
    }
  for (const auto& [cell, user] : last_use) keep_for_mpi(cell, user);
}

void Poison::after(std::size_t issued) const {
  if (dead_.empty()) return;
  for (auto bytes : dead_[issued]) backend_.fill(bytes, not_a_number);
}

}  // namespace flotilla::train
