// The lock between real processes: killed, stopped, racing.
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "flotilla/journal/outcome.hpp"
#include "flotilla/journal/run_directory.hpp"
#include "journal/run_folder.hpp"

namespace flotilla::journal {
namespace {

using namespace testing;

/// Numbers that parent and children share.
struct Board {
  std::atomic<int> ready{0}, winners{0}, losers{0}, go{0}, at_once{0}, most_at_once{0};
};
class SharedBoard {
 public:
  SharedBoard() : board_{new (mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Board} {}
  SharedBoard(const SharedBoard&) = delete;
  SharedBoard& operator=(const SharedBoard&) = delete;
  ~SharedBoard() { munmap(board_, sizeof(Board)); }
  Board* operator->() const { return board_; }

 private:
  Board* board_;
};

/// Takes the lock and sleeps with it.
int hold(const std::filesystem::path& run, const SharedBoard& board, double heartbeat = 0) {
  const auto held = RunDirectory::open(run, {.stale_after = {100}, .heartbeat = {heartbeat}});
  ++board->ready;
  for (;;) pause();
}

TEST(Processes, AKilledHolderOnThisHostIsReplacedAtOnce) {
  const RunFolder run;
  const SharedBoard board;
  Child child{[&] { return hold(run, board, 0.01); }};
  wait_until([&] { return board->ready == 1; });
  expect_contains(refusal(ErrorKind::unavailable, [&] { RunDirectory::open(run); }), text("pid ", child.pid()));
  const auto pid = child.pid();
  child.signal(SIGKILL);
  EXPECT_EQ(child.wait(), -SIGKILL);
  const auto mine = RunDirectory::open(run);
  EXPECT_EQ(mine.incarnation(), 2);
  expect_contains(mine.note(), text("pid ", pid));
  expect_contains(mine.note(), "is dead; taken over");
}

TEST(Processes, AZombieIsDead) {
  const RunFolder run;
  const SharedBoard board;
  Child child{[&] { return hold(run, board); }};
  wait_until([&] { return board->ready == 1; });
  child.signal(SIGKILL);
  siginfo_t info{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child.pid()), &info, WEXITED | WNOWAIT), 0);  // dead, not reaped
  EXPECT_EQ(RunDirectory::open(run).incarnation(), 2);
}

TEST(Processes, AStoppedHolderIsAliveUntilItsHeartbeatIsStaleAndThenLoses) {
  const RunFolder run;
  const SharedBoard board;
  Child child{[&] {
    auto held = RunDirectory::open(run, {.stale_after = {100}, .heartbeat = {0}});
    ++board->ready;
    while (board->go == 0) usleep(1000);
    return !held.touch() && !held.still_mine() ? 7 : 1;
  }};
  wait_until([&] { return board->ready == 1; });
  child.signal(SIGSTOP);
  refusal(ErrorKind::unavailable, [&] { RunDirectory::open(run); });
  age(run / "incarnations/1.json", 200);
  auto mine = RunDirectory::open(run);
  EXPECT_EQ(mine.incarnation(), 2);
  board->go = 1;
  child.signal(SIGCONT);
  EXPECT_EQ(child.wait(), 7) << "the old holder did not notice";
  EXPECT_TRUE(mine.still_mine());
}

TEST(Processes, AReusedProcessNumberIsNotTheHolder) {
  const RunFolder run;
  const SharedBoard board;
  Child child{[&] { return hold(run, board); }};
  wait_until([&] { return board->ready == 1; });
  // The same pid, but a process that began at another time.
  auto claim = content(run / "incarnations/1.json");
  const auto at = claim.find("\"process_start\": ") + 17;
  claim[at] = claim[at] == '9' ? '8' : '9';
  write(run / "incarnations/1.json", claim);
  EXPECT_EQ(RunDirectory::open(run).incarnation(), 2);
}

TEST(Processes, AProcessOfAnotherHostIsJudgedByItsHeartbeatAlone) {
  const RunFolder run;
  const SharedBoard board;
  Child child{[&] { return hold(run, board); }};
  wait_until([&] { return board->ready == 1; });
  child.signal(SIGKILL);
  child.wait();
  auto claim = content(run / "incarnations/1.json");
  const auto at = claim.find("\"boot_id\": \"") + 12;
  claim.replace(at, 4, "zzzz");
  write(run / "incarnations/1.json", claim);
  refusal(ErrorKind::unavailable, [&] { RunDirectory::open(run); });
  age(run / "incarnations/1.json", 200);
  EXPECT_EQ(RunDirectory::open(run).incarnation(), 2);
}

TEST(Processes, AForkedChildDoesNotReleaseItsParentsLock) {
  const RunFolder run;
  auto held = RunDirectory::open(run, {.heartbeat = {0}});
  Child child{[&] {
    held.release();
    return 0;
  }};
  EXPECT_EQ(child.wait(), 0);
  EXPECT_TRUE(held.still_mine());
  EXPECT_FALSE(newest_holder(run)->released);
}

/// `count` processes open at the same moment; the winner keeps it.
void race(const std::filesystem::path& run, int count, const SharedBoard& board) {
  std::vector<std::unique_ptr<Child>> children;
  for (int i = 0; i < count; ++i) {
    children.push_back(std::make_unique<Child>([&] {
      ++board->ready;
      while (board->go == 0) usleep(100);
      try {
        const auto held = RunDirectory::open(run, {.stale_after = {100}, .heartbeat = {0}});
        ++board->winners;
        while (board->winners + board->losers < count) usleep(500);
        return held.still_mine() ? 0 : 1;
      } catch (const Error& error) {
        ++board->losers;
        return error.kind() == ErrorKind::unavailable ? 0 : 1;
      }
    }));
  }
  wait_until([&] { return board->ready == count; });
  board->go = 1;
  for (auto& child : children) EXPECT_EQ(child->wait(), 0);
  EXPECT_EQ(board->winners, 1);
  EXPECT_EQ(board->losers, count - 1);
}

TEST(Processes, ExactlyOneOfManyWinsANewDirectory) {
  for (int round = 0; round < 3; ++round) {
    const RunFolder folder;
    const SharedBoard board;
    race(folder / "run", 12, board);
    EXPECT_EQ(newest_holder(folder / "run")->incarnation, 1);
  }
}

TEST(Processes, ExactlyOneOfManyTakesOverADeadHolder) {
  for (int round = 0; round < 3; ++round) {
    const RunFolder run;
    const SharedBoard first, board;
    {
      Child dead{[&] { return hold(run, first); }};
      wait_until([&] { return first->ready == 1; });
    }
    race(run, 12, board);
    EXPECT_EQ(newest_holder(run)->incarnation, 2);
  }
}

TEST(Processes, NeverTwoHoldAtOnceThoughSomeAreKilled) {
  const RunFolder run;
  const SharedBoard board;
  std::vector<std::unique_ptr<Child>> children;
  for (int i = 0; i < 6; ++i) {
    children.push_back(std::make_unique<Child>([&, i] {
      for (int turn = 0; turn < 4;) {
        try {
          auto held = RunDirectory::open(run, {.stale_after = {100}, .heartbeat = {0}});
          board->most_at_once = std::max<int>(board->most_at_once, ++board->at_once);
          usleep(500);
          --board->at_once;
          ++board->winners;
          if (turn == 3 && i % 2 == 0) kill(getpid(), SIGKILL);  // with the lock in its hands
          held.release();
          ++turn;
        } catch (const Error&) {
          usleep(300);
        }
      }
      return 0;
    }));
  }
  for (std::size_t i = 0; i < children.size(); ++i) EXPECT_EQ(children[i]->wait(), i % 2 == 0 ? -SIGKILL : 0);
  EXPECT_EQ(board->most_at_once, 1);
  EXPECT_EQ(board->winners, 24);
  EXPECT_EQ(newest_holder(run)->incarnation, 24);
}

TEST(Processes, ManyRanksWriteOutcomesAndTheSummaryIsTheirMerge) {
  for (int round = 0; round < 5; ++round) {
    const RunFolder run;
    const SharedBoard board;
    std::vector<std::unique_ptr<Child>> ranks;
    for (int rank = 0; rank < 8; ++rank) {
      ranks.push_back(std::make_unique<Child>([&, rank] {
        while (board->go == 0) usleep(50);
        const auto code = rank == 5 ? ExitCode::bad_input : ExitCode::lost_peer;
        return write_outcome(run, {1, rank, "n1", code, text("rank ", rank), 3, 100.0 + rank}) ? 0 : 1;
      }));
    }
    board->go = 1;
    for (auto& rank : ranks) EXPECT_EQ(rank->wait(), 0);
    const auto outcome = read_outcome(run);
    ASSERT_TRUE(outcome.has_value());
    EXPECT_EQ(outcome->rank, 5);
    EXPECT_EQ(outcome->exit_code, ExitCode::bad_input);
    EXPECT_EQ(read_outcomes(run, 1).size(), 8u);
  }
}

}  // namespace
}  // namespace flotilla::journal
