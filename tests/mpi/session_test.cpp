// Sessions from start to end in processes of their own: under mpirun, without a launcher, and under a launcher that MPI does not see.
#include <gtest/gtest.h>

#include <string>

#include "support/child.hpp"

namespace {

using flotilla::tests::Finished;
using flotilla::tests::run_line;

const std::string program = SESSION_PROGRAM;
const std::string mpirun = MPIRUN;
const std::string outside = "env -u OMPI_COMM_WORLD_SIZE -u PMI_SIZE -u SLURM_NTASKS -u SLURM_STEP_NUM_TASKS ";

TEST(Session, WorksWithoutALauncher) {
  const Finished r = run_line(outside + program);
  EXPECT_EQ(r.exit_code, 0) << r.output;
  EXPECT_NE(r.output.find("rank 0 of 1"), std::string::npos) << r.output;
}

TEST(Session, MpirunGivesOneWorld) {
  const Finished r = run_line(mpirun + " -n 3 " + program);
  EXPECT_EQ(r.exit_code, 0) << r.output;
  for (const char* line : {"rank 0 of 3", "rank 1 of 3", "rank 2 of 3"}) EXPECT_NE(r.output.find(line), std::string::npos) << r.output;
}

TEST(Session, CopiesOfRankZeroAreRefusedWithTheLaunchLine) {
  const Finished r = run_line(outside + "env SLURM_NTASKS=4 SLURM_STEP_NUM_TASKS=4 " + program);
  EXPECT_EQ(r.exit_code, 69) << r.output;
  EXPECT_NE(r.output.find("srun --mpi=pmix -n 4"), std::string::npos) << r.output;
  EXPECT_EQ(r.output.find("rank 0 of 1"), std::string::npos) << r.output;
}

// The others wait in a barrier: the abort must end them, and the launcher pass the code on.
TEST(Session, OneRankThrowingEndsAllWithItsExitCode) {
  const Finished r = run_line(mpirun + " -n 3 " + program + " throw");
  EXPECT_EQ(r.exit_code, 76) << r.output;
}

}  // namespace
