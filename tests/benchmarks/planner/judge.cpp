#include "judge.hpp"

#include <algorithm>
#include <map>

#include "flotilla/base/error.hpp"
#include "flotilla/plan/allocate.hpp"
#include "flotilla/simulate/forecaster.hpp"
#include "flotilla/simulate/why_not.hpp"

namespace flotilla::benchmarks {
namespace {

int most_on_a_host(const std::vector<cluster::Device>& devices) {
  std::map<std::string, int> count;
  int most = 1;
  for (const auto& device : devices) most = std::max(most, ++count[device.host]);
  return most;
}

}  // namespace

Bytes process_memory(int ranks) { return Bytes{160 << 20} + ranks * Bytes{8 << 20}; }

Judgement judge(const plan::Plan& plan, const cluster::Profile& library, const program::Runtime& runtime) {
  Judgement judgement;
  try {
    const auto allocation = plan::allocate(plan, library);
    auto profile = library;
    profile.devices = allocation.devices;
    const simulate::ProgramForecaster forecaster{profile, runtime, process_memory(most_on_a_host(profile.devices))};
    const auto forecast = forecaster.forecast(allocation.plan);
    judgement.iteration = forecast.iteration;
    judgement.usd = forecast.expense.usd();
    const auto limit = [&](Rank rank) -> std::optional<Bytes> {
      const auto* type = cluster::find_type(profile, profile.devices[rank.index()].type);
      return type && type->memory.count > 0 ? std::optional{type->memory} : std::nullopt;
    };
    if (const auto tightest = simulate::tightest(forecast, limit)) judgement.needed = tightest->needed, judgement.limit = tightest->limit;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::internal) throw;
    judgement.refusal = error.what();
  }
  return judgement;
}

}  // namespace flotilla::benchmarks
