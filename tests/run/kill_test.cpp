// kill -9 of a random rank at a random moment, again and again: the run comes back each time, and in the end nobody can tell.
#include <sys/stat.h>

#include "run/training.hpp"
#include "support/tier.hpp"

namespace flotilla::tests {
namespace {

constexpr int ranks = 3;
const int steps = fewer_on_gpus(300, 6);

/// Where in a run's life the blow falls; a delay on top makes it random.
enum class Moment { starting, stepping, saving };

/// How checkpoints are made, and when the blows fall.
struct Way {
  const char* name;
  bool asynchronous = false;
  std::vector<Moment> moments;
  int save_every = 3;
  bool local = false;
  int usual_kills = 12;
};

class Kill : public testing::TestWithParam<Way> {
 protected:
  static int kills() { return of_tier(GetParam().usual_kills, 50, "FLOTILLA_KILLS"); }

  Words command(const fs::path& run, int save_every) const {
    Words more{"--plan=" + plan_.string(), text("--training.steps=", steps), "--model.dropout=0.1", text("--checkpoint.every=", save_every),
               std::string{"--checkpoint.asynchronous="} + (GetParam().asynchronous ? "true" : "false")};
    if (GetParam().local) more.push_back("--checkpoint.local=" + run.string() + "-node-$OMPI_COMM_WORLD_RANK");
    return train(run, ranks, more);
  }

  /// Folders of saves that have begun and are not committed, with what tells them from earlier ones of the same name.
  std::set<std::string> saves_under_way() const {
    std::set<std::string> found;
    std::error_code none;
    for (const auto& entry : fs::directory_iterator{run_, none}) {
      struct stat facts {};
      if (entry.path().filename().string().rfind("step-", 0) != 0 || fs::exists(entry.path() / "manifest.json") ||
          ::stat(entry.path().c_str(), &facts) != 0)
        continue;
      found.insert(text(entry.path().string(), " ", facts.st_ino, " ", facts.st_mtim.tv_sec, ".", facts.st_mtim.tv_nsec));
    }
    return found;
  }

  /// False when the run came to its end first.
  bool reach(Process& process, Moment moment) {
    const auto logged = steps_logged(run_);
    const auto old_saves = saves_under_way();
    const auto further = static_cast<std::int64_t>(1 + random_() % 6);
    const auto there = [&] {
      if (moment == Moment::starting) return process.ranks().size() == ranks;
      if (moment == Moment::stepping) return steps_logged(run_) >= logged + further;
      const auto saves = saves_under_way();
      return std::any_of(saves.begin(), saves.end(), [&](const auto& save) { return !old_saves.contains(save); });
    };
    const Milliseconds pause{moment == Moment::saving ? 2 : 10};  // a save of so small a model is over at once
    EXPECT_TRUE(process.until([&] { return there() || !process.running(); }, pause)) << process.out() << process.err();
    const int longest[] = {1500, 60, 60};  // ms
    std::this_thread::sleep_for(Milliseconds{random_() % static_cast<unsigned>(longest[static_cast<int>(moment)])});
    return process.running();
  }

  bool struck_enough(Moment moment) const { return struck_[static_cast<int>(moment)] >= kills() / 6; }
  bool struck_enough() const {
    return std::ranges::all_of(GetParam().moments, [this](Moment moment) { return struck_enough(moment); });
  }
  /// Towards the end one of those that have had too few: which blows miss is chance.
  Moment any_moment() {
    const auto& moments = GetParam().moments;
    auto moment = random_() % moments.size();
    if (struck_[0] + struck_[1] + struck_[2] >= kills())
      while (struck_enough(moments[moment]) && !struck_enough()) moment = (moment + 1) % moments.size();
    return moments[moment];
  }

  /// One incarnation. False when it ended by itself.
  bool strike() {
    age_leftovers(run_);
    Process process{command(run_, GetParam().save_every), folder()};
    const auto victim = static_cast<int>(random_() % ranks);
    const auto moment = any_moment();
    if (!reach(process, moment)) {
      EXPECT_EQ(process.wait().code, 0) << process.err();
      return false;
    }
    const auto living = process.ranks();
    const bool hit = living.contains(victim) && ::kill(living.at(victim), SIGKILL) == 0;
    EXPECT_TRUE(process.until([&] { return process.ranks().empty(); }, Milliseconds{20})) << "the others hang\n"
                                                                                          << process.states() << process.err();
    // Open MPI 4.1's launcher can hang when a rank dies while it connects to it. Then no rank is left, nothing moves, and we end the
    // launcher.
    const auto ended = process.wait(Seconds{20});
    EXPECT_TRUE(process.nothing_left());
    // Its victim may end by itself between the look at it and the blow: such a run is over, and is looked at as every other that is.
    if (!hit || ended.code == 0) return false;
    EXPECT_EQ(ended.code, 137) << ended.out << ended.err;
    ++struck_[static_cast<int>(moment)];
    cut_short_ += !saves_under_way().empty();
    return true;
  }

  void expect_sound() {
    const auto steps_there = checkpoint::list(run_);
    for (const auto& step : steps_there) EXPECT_EQ(checkpoint::describe(step.directory, true).damaged_segments(), 0) << step.directory;
    const auto newest = steps_there.empty() ? 0 : steps_there.back().step;
    EXPECT_GE(newest, newest_) << "a committed step is gone";
    newest_ = newest;
  }

  /// No start went back to before what an earlier one had committed, be it on the nodes only.
  void expect_no_commit_lost() {
    std::map<int, std::int64_t> saved;
    const auto metrics = journal::read_metrics(run_);
    for (const auto& save : metrics.checkpoints) saved[save.incarnation] = std::max(saved[save.incarnation], save.step);
    for (const auto& start : metrics.starts)
      for (const auto& [incarnation, step] : saved)
        EXPECT_TRUE(incarnation >= start.incarnation || start.step >= step) << start.incarnation;
  }

  void expect_unbroken() {
    const auto history = losses(run_);
    EXPECT_EQ(history.size(), static_cast<std::size_t>(steps));
    EXPECT_EQ(history, unbroken_);  // to the bit
    EXPECT_EQ(debris(run_), Words{});
    expect_no_commit_lost();
    EXPECT_EQ(committed(run_).back(), steps);
  }

  const fs::path plan_ = plan_file(1, 3, 1);
  const fs::path run_ = folder() / text("killed-", GetParam().name);
  std::mt19937 random_{4711};
  std::int64_t newest_ = 0;
  int struck_[3] = {0, 0, 0};
  int cut_short_ = 0;  ///< blows that left a save half done
  std::map<std::int64_t, double> unbroken_;
};

TEST_P(Kill, TheRunComesBackAsIfNothingHadHappened) {
  const auto reference = folder() / text("unbroken-", GetParam().name);
  const auto ended = run(command(reference, steps));
  ASSERT_EQ(ended.code, 0) << ended.err;
  unbroken_ = losses(reference);
  for (int strikes = 0; (strikes < kills() || !struck_enough()) && !HasFailure();) {
    if (strike()) {
      ++strikes;
      expect_sound();
    } else {  // it was over before the blow fell: another run takes the rest
      expect_unbroken();
      fs::remove_all(run_);
      newest_ = 0;
    }
  }
  age_leftovers(run_);
  ASSERT_EQ(run(command(run_, steps)).code, 0);
  expect_unbroken();
  if (kills() >= 12) {
    EXPECT_GT(cut_short_, 0) << "no blow met a save";
  }
  std::cout << "blows: " << struck_[0] << " at a start, " << struck_[1] << " between steps, " << struck_[2] << " during a save; "
            << cut_short_ << " left one half done\n";
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, Kill,
                         testing::Values(Way{"synchronous", false, {Moment::starting, Moment::stepping, Moment::saving}},
                                         Way{"asynchronous", true, {Moment::saving}, 5, false, 2},
                                         Way{"local", false, {Moment::saving}, 5, true, 2},
                                         Way{"local_and_asynchronous", true, {Moment::saving}, 5, true, 2}),
                         [](const auto& way) { return std::string{way.param.name}; });

}  // namespace
}  // namespace flotilla::tests
