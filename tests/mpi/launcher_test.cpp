// N copies of "rank 0 of 1" are refused, and nothing else is.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "flotilla/mpi/session.hpp"

namespace flotilla::mpi {
namespace {

Environment table(std::map<std::string, std::string> values) {
  return [values = std::move(values)](const char* name) -> const char* {
    const auto found = values.find(name);
    return found == values.end() ? nullptr : found->second.c_str();
  };
}

TEST(Launcher, NoneMeansOneProcess) {
  EXPECT_EQ(launched_processes(table({})), 1);
  EXPECT_EQ(why_not_one_world(1, table({})), "");
}

TEST(Launcher, PlainSrunWithoutPmixIsRefusedWithTheLine) {
  const auto environment = table({{"SLURM_NTASKS", "4"}, {"SLURM_STEP_NUM_TASKS", "4"}});
  EXPECT_EQ(launched_processes(environment), 4);
  const std::string why = why_not_one_world(1, environment);
  EXPECT_NE(why.find("srun --mpi=pmix -n 4"), std::string::npos) << why;
  EXPECT_EQ(why_not_one_world(4, environment), "");
}

TEST(Launcher, BatchScriptWithoutSrunIsRefused) {
  EXPECT_NE(why_not_one_world(1, table({{"SLURM_NTASKS", "2"}})).find("srun --mpi=pmix -n 2"), std::string::npos);
}

TEST(Launcher, OneTaskStepInALargerAllocationIsFine) {
  EXPECT_EQ(why_not_one_world(1, table({{"SLURM_NTASKS", "8"}, {"SLURM_STEP_NUM_TASKS", "1"}})), "");
}

TEST(Launcher, MpirunOfOneRankInALargerAllocationIsFine) {
  EXPECT_EQ(why_not_one_world(1, table({{"SLURM_NTASKS", "8"}, {"OMPI_COMM_WORLD_SIZE", "1"}})), "");
}

TEST(Launcher, ForeignMpirunIsRefused) {
  const std::string why = why_not_one_world(1, table({{"PMI_SIZE", "3"}}));
  EXPECT_NE(why.find("mpirun -n 3"), std::string::npos) << why;
}

TEST(Launcher, HetjobSeesMoreRanksThanItsOwnComponent) { EXPECT_EQ(why_not_one_world(7, table({{"SLURM_STEP_NUM_TASKS", "2"}})), ""); }

TEST(Launcher, NonsenseInVariablesCountsAsUnset) {
  for (const char* nonsense : {"", "x", "-3", "0", "4x", "99999999999999999999"})
    EXPECT_EQ(launched_processes(table({{"OMPI_COMM_WORLD_SIZE", nonsense}})), 1) << nonsense;
}

}  // namespace
}  // namespace flotilla::mpi
