// Checks the proof of a planner's bound (docs/formats/certificate.md) by its arithmetic alone. Shares no code with the planner.
//
//   check_certificate FILE                 exit code 0: the bound follows from the stages' table; 1: it does not, and why
//   check_certificate --self-test FILE     in addition changes one thing after the other, each of which must be refused
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

namespace {

using nlohmann::json;

constexpr double infinity = std::numeric_limits<double>::infinity(), rounding = 1e-7;

void require(bool good, const std::string& what) {
  if (!good) throw std::runtime_error{what};
}

double finite(const json& value, const std::string& name) {
  require(value.is_number(), name + " is no number");
  const double number = value.get<double>();
  require(std::isfinite(number), name + " is not finite");
  return number;
}

int whole(const json& value, int least, int most, const std::string& name) {
  require(value.is_number_integer(), name + " is no whole number");
  const auto number = value.get<std::int64_t>();
  require(number >= least && number <= most, name + " = " + std::to_string(number) + " is out of range");
  return static_cast<int>(number);
}

using Stage = std::tuple<int, int, int>;  // first layer, end, type

class Certificate {
 public:
  explicit Certificate(const json& document) : d_{document} {
    require(d_.at("format") == "flotilla-certificate" && d_.at("version") == 2, "not a certificate of version 2");
    layers_ = whole(d_.at("layers"), 1, 100'000, "layers");
    batch_ = whole(d_.at("global_batch"), 1, 1 << 30, "global_batch");
    types_ = static_cast<int>(d_.at("types").size());
    require(types_ > 0, "no types");
    bound_ = finite(d_.at("bound"), "bound");
  }

  void check() const {
    check_gap();
    if (d_.at("goal") == "throughput")
      check_cases();
    else
      check_path();
  }

 private:
  using Potentials = std::vector<double>;
  Potentials potentials_of(const json& owner) const {
    Potentials all;
    for (const auto& value : owner.at("potentials")) all.push_back(value.is_null() ? infinity : finite(value, "potential"));
    require(static_cast<int>(all.size()) == layers_ + 1, "not one potential for each layer boundary");
    require(all.front() == 0, "the first potential is not 0");
    return all;
  }

  void check_gap() const {
    const double answer = finite(d_.at("answer"), "answer"), gap = finite(d_.at("bound_gap"), "bound_gap");
    require(answer > 0 && bound_ >= 0, "a value is not positive");
    require(bound_ <= answer * (1 + rounding), "the answer is below its bound");
    require(std::abs(gap - (1 - bound_ / answer)) <= rounding, "bound_gap is not 1 - bound / answer");
  }

  /// What is on record of a stage may not be on record twice.
  Stage stage_of(const json& row) const {
    const int first = whole(row.at(0), 0, layers_ - 1, "first layer"), last = whole(row.at(1), first + 1, layers_, "end of a stage");
    return {first, last, whole(row.at(2), 0, types_ - 1, "type")};
  }

  /// What of a stage's replicas takes how many devices at least, for a whole stage.
  struct Need {
    double alone = infinity, one_host = infinity, many = infinity;
    int host = 1;
    double least(bool lone_type) const {
      const double host_devices = std::ceil(one_host - rounding);  // a host's devices, and those of a lone type, are whole ones
      return std::min({alone, host_devices <= host ? host_devices : infinity, lone_type ? std::ceil(many - rounding) : many});
    }
  };

  /// Devices of each type that a stage takes at least, from what each of its replicas can take.
  std::map<Stage, double> devices(const json& one) const {
    const int least_replicas = whole(one.at("least_replicas"), 1, batch_, "least_replicas");
    const double by_batch = finite(one.at("by_batch"), "by_batch");
    require(by_batch > 0 && by_batch <= 1, "by_batch is not in (0, 1]");
    std::map<Stage, Need> needs;
    for (const auto& row : one.at("replicas")) {
      require(row.size() == 8, "a replica has not 8 figures");
      const int tensor = whole(row.at(3), 1, 1 << 20, "tensor degree");
      const auto need = [&](const json& figure) {
        const int sequences = whole(figure, 0, batch_, "sequences");
        return sequences > 0 ? tensor / (by_batch * sequences / batch_ + (1 - by_batch) / least_replicas) : infinity;
      };
      Need& known = needs[stage_of(row)];
      known.host = whole(row.at(7), 1, 1 << 20, "devices of a host");
      if (whole(row.at(4), 0, batch_, "sequences") >= batch_) known.alone = std::min<double>(known.alone, tensor);
      known.one_host = std::min(known.one_host, need(row.at(5))), known.many = std::min(known.many, need(row.at(6)));
    }
    std::map<Stage, double> least;
    for (const auto& [stage, need] : needs) least[stage] = need.least(types_ == 1);
    return least;
  }

  /// Every stage costs at least its rise of the potential.
  template <class Cost>
  void check_stages(const std::map<Stage, double>& stages, const Potentials& potentials, Cost cost) const {
    for (const auto& [stage, amount] : stages) {
      const auto [first, last, type] = stage;
      const double from = potentials[static_cast<std::size_t>(first)], to = potentials[static_cast<std::size_t>(last)];
      if (from == infinity || amount == infinity) continue;
      require(to <= (from + cost(type, amount)) * (1 + rounding), "layers [" + std::to_string(first) + ", " + std::to_string(last) +
                                                                      ") on type " + std::to_string(type) +
                                                                      " cost less than the potentials say");
    }
  }

  /// Each case excludes its plans. That the cases are all plans is not seen here, as the table of stages is not.
  void check_cases() const {
    bool any = false;
    for (const auto& one : d_.at("cases")) {
      require(finite(one.at("seconds"), "seconds") >= bound_, "the bound is above the time that is excluded");
      check_packing(one);
      any = any || !one.at("replicas").empty();
    }
    require(any, "no stages are on record");
  }

  /// Weak duality: a plan's stages cost at least what the last potential says, and all that there is costs less.
  void check_packing(const json& one) const {
    std::vector<double> price(static_cast<std::size_t>(types_), 0);
    double all = 0;
    require(!one.at("resources").empty(), "no resources");
    for (const auto& resource : one.at("resources")) {
      const double of_all = finite(resource.at("price_of_all"), "price"), available = finite(resource.at("available"), "available");
      require(of_all >= 0 && available > 0, "a price is negative, or nothing is available");
      const auto& use = resource.at("use_by_type");
      require(static_cast<int>(use.size()) == types_, "not one use for each type");
      for (std::size_t t = 0; t < price.size(); ++t) {
        const double of_one = finite(use.at(t), "use");
        require(of_one >= 0, "a use is negative");
        price[t] += of_all * of_one / available;
      }
      all += of_all;
    }
    const Potentials potentials = potentials_of(one);
    check_stages(devices(one), potentials, [&](int type, double amount) { return price[static_cast<std::size_t>(type)] * amount; });
    require(potentials.back() > all, "all that there is costs no less than a plan");
  }

  /// Where devices are paid for: the cheapest stages one after the other.
  void check_path() const {
    std::map<Stage, double> least;
    for (const auto& row : d_.at("expenses")) {
      require(row.size() == 4, "an expense has not 4 figures");
      const double amount = finite(row.at(3), "expense");
      require(amount >= 0 && least.try_emplace(stage_of(row), amount).second, "an expense is negative or on record twice");
    }
    require(!least.empty(), "no stages are on record");
    const Potentials potentials = potentials_of(d_);
    check_stages(least, potentials, [](int, double amount) { return amount; });
    require(bound_ <= potentials.back(), "the bound is above the cheapest stages");
  }

  const json& d_;
  int layers_ = 0, batch_ = 0, types_ = 0;
  double bound_ = 0;
};

std::string problem_of(const json& document) {
  try {
    Certificate{document}.check();
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

/// Where the potentials are: of the first case, or of the whole.
json& part(json& d) { return d["cases"].empty() ? d : d["cases"].front(); }

/// Each makes the proof say more than it shows.
std::map<std::string, std::function<void(json&)>> tamperings(bool throughput) {
  std::map<std::string, std::function<void(json&)>> all{
      {"a higher bound",
       [](json& d) {
         d["bound"] = d["bound"].get<double>() * 1.05, d["bound_gap"] = 1 - d["bound"].get<double>() / d["answer"].get<double>();
       }},
      {"a smaller gap", [](json& d) { d["bound_gap"] = d["bound_gap"].get<double>() * 0.5; }},
      {"a first potential", [](json& d) { part(d)["potentials"][0] = -1; }},
      {"a potential too few", [](json& d) { part(d)["potentials"].erase(1); }},
      {"another format", [](json& d) { d["format"] = "flotilla-plan"; }},
      {"no stages", [](json& d) {
         for (auto& one : d["cases"]) one["replicas"] = json::array();
         d["expenses"] = json::array();
       }}};
  if (!throughput) {
    all["a higher last potential"] = [](json& d) {
      auto& last = d["potentials"].back();
      last = last.get<double>() * 1.5;
    };
    return all;
  }
  all["no cases"] = [](json& d) { d["cases"] = json::array(); };
  all["a shorter time"] = [](json& d) {
    auto& seconds = d["cases"].back()["seconds"];
    seconds = seconds.get<double>() / 2;
  };
  all["more devices"] = [](json& d) {
    for (auto& one : d["cases"])
      for (auto& r : one["resources"]) r["available"] = r["available"].get<double>() * 4;
  };
  all["a higher price"] = [](json& d) {
    for (auto& one : d["cases"])
      for (auto& r : one["resources"]) r["price_of_all"] = r["price_of_all"].get<double>() + 1;
  };
  all["a negative price"] = [](json& d) { d["cases"][0]["resources"][0]["price_of_all"] = -1; };
  all["replicas that take more"] = [](json& d) {
    for (auto& one : d["cases"])
      for (auto& row : one["replicas"])
        for (const std::size_t figure : {4, 5, 6}) row[figure] = d["global_batch"];
  };
  return all;
}

int self_test(const json& document) {
  int accepted = 0;
  for (const auto& [what, change] : tamperings(document.at("goal") == "throughput")) {
    json changed = document;
    change(changed);
    const auto problem = problem_of(changed);
    std::printf("%s: %s\n", what.c_str(), problem.empty() ? "ACCEPTED" : ("refused, " + problem).c_str());
    accepted += problem.empty() ? 1 : 0;
  }
  return accepted == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const bool tests = argc == 3 && std::string{argv[1]} == "--self-test";
  if (argc != 2 && !tests) {
    std::fprintf(stderr, "usage: check_certificate [--self-test] FILE\n");
    return 64;
  }
  try {
    std::ifstream file{argv[argc - 1]};
    const json document = json::parse(file);
    if (const auto problem = problem_of(document); !problem.empty()) {
      std::fprintf(stderr, "not proven: %s\n", problem.c_str());
      return 1;
    }
    std::printf("proven: no plan is better than %.9g (the answer is %.9g)\n", document.at("bound").get<double>(),
                document.at("answer").get<double>());
    return tests ? self_test(document) : 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
