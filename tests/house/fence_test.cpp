// The fences of the house: each outside library in its room only, wings that include downward only, rooms that include what their
// CMake target declares, commands that include no other command, no machine-specific conditionals at callers.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

namespace {

namespace fs = std::filesystem;

const fs::path root = FLOTILLA_SOURCE_DIR;

struct Include {
  fs::path file;
  int line = 0;
  std::string room, header;
};

std::vector<fs::path> sources(const fs::path& folder) {
  std::vector<fs::path> found;
  if (!fs::exists(folder)) return found;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const auto suffix = entry.path().extension();
    if (suffix == ".cpp" || suffix == ".hpp" || suffix == ".cu" || suffix == ".cuh" || suffix == ".inc") found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

/// include/flotilla/<room>/..., src/base/..., src/app/..., src/<wing>/<room>/...
std::string room_of(const fs::path& file) {
  std::vector<std::string> parts;
  for (const auto& part : fs::relative(file, root)) parts.push_back(part.string());
  if (parts[0] == "include") return parts[2];
  return parts[1] == "base" || parts[1] == "app" ? parts[1] : parts[2];
}

std::map<std::string, std::string> wings() {
  std::map<std::string, std::string> wing{{"base", "base"}, {"app", "app"}};
  for (const std::string name : {"core", "platform", "runtime"})
    for (const auto& entry : fs::directory_iterator(root / "src" / name))
      if (entry.is_directory()) wing[entry.path().filename().string()] = name;
  return wing;
}

std::vector<Include> includes() {
  static const std::regex pattern{R"(^\s*#\s*include\s*[<"]([^>"]+)[>"])"};
  std::vector<Include> found;
  for (const auto& folder : {root / "src", root / "include"})
    for (const auto& file : sources(folder)) {
      std::ifstream in{file};
      std::string text;
      for (int line = 1; std::getline(in, text); ++line) {
        std::smatch match;
        if (std::regex_search(text, match, pattern)) found.push_back({file, line, room_of(file), match[1]});
      }
    }
  return found;
}

std::string at(const Include& include) {
  return fs::relative(include.file, root).string() + ":" + std::to_string(include.line) + " includes " + include.header;
}

TEST(Fence, EachOutsideLibraryStaysInItsRoom) {
  const std::vector<std::pair<std::regex, std::set<std::string>>> owners{
      {std::regex{R"(^mpi\.h$)"}, {"mpi"}},
      {std::regex{R"(^hwloc.*)"}, {"topology"}},
      {std::regex{R"(^(ucp|uct|ucs)/.*)"}, {"ucx"}},
      {std::regex{R"(^hdf5.*|^H5.*)"}, {"store"}},
      {std::regex{R"(^nlohmann/.*)"}, {"files"}},
      {std::regex{R"(^boost/.*|^toml\+\+/.*|^toml\.hpp$)"}, {"options"}},
      {std::regex{R"(^(dnnl|oneapi)[./].*|^dnnl.*|^cublas.*|^cudnn.*)"}, {"compute"}},
      {std::regex{R"(^cuda[^/]*|^cuda/[^.]*|^nvml.*)"}, {"gpu"}},  // compute/cuda is a folder of ours
      {std::regex{R"(^nccl\.h$)"}, {"nccl"}},
      {std::regex{R"(^nccl.*)"}, {"nccl"}},
      {std::regex{R"(^slurm/.*)"}, {"slurm"}},
      {std::regex{R"(^pcre2.*|^utf8proc.*)"}, {"unicode"}},
      {std::regex{R"(^zlib\.h$|^zstd.*)"}, {"compression"}},
      {std::regex{R"(^sentencepiece_.*)"}, {"sentencepiece"}},
      {std::regex{R"(^(csignal|signal\.h)$)"}, {"signals", "journal", "app", "comm"}},
  };
  for (const auto& include : includes())
    for (const auto& [pattern, rooms] : owners)
      if (std::regex_match(include.header, pattern)) {
        EXPECT_TRUE(rooms.contains(include.room)) << at(include);
      }
}

TEST(Fence, NoRegularExpressionsOfTheStandardLibrary) {
  // They recurse once for each character of what they read: a long text of somebody else's overflows the stack.
  for (const auto& include : includes()) EXPECT_NE(include.header, "regex") << at(include);
}

TEST(Fence, NativeHeadersCrossOnlyWhereTheDesignSays) {
  // Parallel HDF5 needs MPI_Comm: the one private header that another room reads.
  for (const auto& include : includes())
    if (include.header.find("native.hpp") != std::string::npos && include.header.find('/') != std::string::npos) {
      EXPECT_EQ(include.room, "store") << at(include);
    }
}

TEST(Fence, WingsPointDownward) {
  const auto wing = wings();
  const std::map<std::string, std::set<std::string>> may{{"base", {"base"}},
                                                         {"core", {"base", "core"}},
                                                         {"platform", {"base", "core", "platform"}},
                                                         {"runtime", {"base", "core", "platform", "runtime"}},
                                                         {"app", {"base", "core", "platform", "runtime", "app"}}};
  static const std::regex pattern{R"(^flotilla/([a-z_]+)/.*)"};
  for (const auto& include : includes()) {
    std::smatch match;
    if (!std::regex_match(include.header, match, pattern)) continue;
    ASSERT_TRUE(wing.contains(include.room)) << at(include);
    ASSERT_TRUE(wing.contains(match[1])) << at(include) << ": no such room";
    EXPECT_TRUE(may.at(wing.at(include.room)).contains(wing.at(match[1])))
        << at(include) << ": " << wing.at(include.room) << " may not use " << wing.at(match[1]);
  }
}

std::map<std::string, std::set<std::string>> declared_dependencies() {
  static const std::regex call{R"(flotilla_add_room\(\s*([a-z_]+)([^)]*)\))"};
  std::map<std::string, std::set<std::string>> declared;
  for (const auto& entry : fs::recursive_directory_iterator(root / "src")) {
    if (entry.path().filename() != "CMakeLists.txt") continue;
    std::ifstream in{entry.path()};
    std::stringstream all;
    all << in.rdbuf();
    const std::string text = all.str();
    for (std::sregex_iterator found{text.begin(), text.end(), call}, end; found != end; ++found) {
      std::istringstream words{(*found)[2].str()};
      bool depends = false;
      for (std::string word; words >> word;) {
        if (word == "DEPENDS")
          depends = true;
        else if (word == "OWNS" || word == "SOURCES")
          depends = false;
        else if (depends)
          declared[(*found)[1]].insert(word);
      }
    }
  }
  return declared;
}

TEST(Fence, RoomsIncludeOnlyWhatTheyDeclare) {
  auto declared = declared_dependencies();
  // What a dependency's public headers bring along is brought along: the transitive closure.
  for (bool grew = true; grew;) {
    grew = false;
    for (auto& [room, rooms] : declared)
      for (const auto& dependency : std::set<std::string>{rooms})
        for (const auto& further : declared[dependency]) grew |= rooms.insert(further).second;
  }
  for (const auto& [room, rooms] : declared) EXPECT_FALSE(rooms.contains(room)) << room << " depends on itself";
  static const std::regex pattern{R"(^flotilla/([a-z_]+)/.*)"};
  for (const auto& include : includes()) {
    std::smatch match;
    if (include.room == "app" || include.room == "base" || !std::regex_match(include.header, match, pattern)) continue;
    if (match[1] == include.room || match[1] == "base") continue;
    EXPECT_TRUE(declared[include.room].contains(match[1])) << at(include) << ", which DEPENDS does not name";
  }
}

TEST(Fence, CommandsShareOnlyWhatIsCommon) {
  // src/app/<folder>/...: a command's own folder or common. The program's own files at the root put them together.
  const auto folder_of = [](const std::string& path) { return path.substr(0, path.find('/')); };
  int looked_at = 0;
  for (const auto& include : includes()) {
    if (include.room != "app" || !include.header.starts_with("app/")) continue;
    const auto path = fs::relative(include.file, root / "src" / "app").string();
    if (path.find('/') == std::string::npos) continue;
    const auto from = folder_of(path), to = folder_of(include.header.substr(4));
    EXPECT_TRUE(to == "common" || to == from) << at(include);
    ++looked_at;
  }
  EXPECT_GT(looked_at, 100) << "the folders are not where this test looks";
}

TEST(Fence, EveryCommandHasItsFolder) {
  std::set<std::string> folders, files;
  for (const auto& entry : fs::directory_iterator(root / "src" / "app"))
    (entry.is_directory() ? folders : files).insert(entry.path().filename().string());
  EXPECT_EQ(files, (std::set<std::string>{"CMakeLists.txt", "command_table.cpp", "command_table.hpp", "main.cpp"}));
  std::ifstream in{root / "src" / "app" / "command_table.cpp"};
  std::stringstream all;
  all << in.rdbuf();
  const std::string text = all.str();
  static const std::regex command{R"re(\{"([a-z]+)", ")re"};
  std::set<std::string> named{"common"};
  for (std::sregex_iterator found{text.begin(), text.end(), command}, end; found != end; ++found) named.insert((*found)[1]);
  EXPECT_EQ(folders, named);
}

/// src/<wing>/<room>/<sub-room>/...; "" for files at the room's root. Subfolders of subfolders belong to the first.
std::string sub_room_of(const fs::path& file) {
  std::vector<std::string> parts;
  for (const auto& part : fs::relative(file, root)) parts.push_back(part.string());
  return parts[0] == "src" && parts.size() > 4 && parts[1] != "app" ? parts[3] : "";
}

bool reaches(const std::map<std::string, std::set<std::string>>& arrows, const std::string& from, const std::string& to,
             std::set<std::string> seen = {}) {
  if (!seen.insert(from).second || !arrows.contains(from)) return false;
  for (const auto& next : arrows.at(from))
    if (next == to || reaches(arrows, next, to, seen)) return true;
  return false;
}

TEST(Fence, SubRoomsMakeNoCircle) {
  std::map<std::string, std::set<std::string>> arrows;  // "room/sub-room" to those whose private headers it includes
  for (const auto& include : includes()) {
    const auto from = sub_room_of(include.file);
    const auto slash = include.header.find('/');
    if (from.empty() || slash == std::string::npos) continue;
    const auto to = include.header.substr(0, slash);
    const fs::path file = fs::relative(include.file, root);
    const auto part = file.begin();
    const fs::path folder = root / *part / *std::next(part) / *std::next(part, 2);
    if (to != from && fs::is_directory(folder / to)) arrows[include.room + "/" + from].insert(include.room + "/" + to);
  }
  for (const auto& [sub_room, _] : arrows)
    EXPECT_FALSE(reaches(arrows, sub_room, sub_room)) << sub_room << " includes itself by way of others";
}

TEST(Fence, PublicHeadersAreForOtherRooms) {
  // Reached from another room (its tests included) or from a public header that is.
  std::map<std::string, std::set<std::string>> brings;
  std::vector<std::string> used;
  static const std::regex pattern{R"(^flotilla/([a-z_]+)/.*)"};
  auto all = includes();
  for (const auto& include : all) {
    std::smatch match;
    if (!std::regex_match(include.header, match, pattern)) continue;
    if (fs::relative(include.file, root).string().starts_with("include/"))
      brings[fs::relative(include.file, root / "include").string()].insert(include.header);
    if (include.room != match[1]) used.push_back(include.header);
  }
  for (std::size_t i = 0; i < used.size(); ++i)
    for (const auto& further : brings[used[i]])
      if (std::ranges::find(used, further) == used.end()) used.push_back(further);
  for (const auto& header : sources(root / "include")) {
    const auto name = fs::relative(header, root / "include").string();
    EXPECT_TRUE(std::ranges::find(used, name) != used.end()) << name << " belongs to its room's own folder: nobody else includes it";
  }
}

TEST(Fence, CoreKnowsNoClockFileOrThread) {
  static const std::set<std::string> forbidden{"fstream", "filesystem", "chrono", "thread", "mutex", "unistd.h", "flotilla/base/clock.hpp"};
  const auto wing = wings();
  for (const auto& include : includes())
    if (wing.at(include.room) == "core") {
      EXPECT_FALSE(forbidden.contains(include.header)) << at(include);
    }
}

TEST(Fence, BackendsAreFilesNotConditionals) {
  static const std::regex conditional{R"(^\s*#\s*if.*FLOTILLA_WITH_)"};
  for (const auto& folder : {root / "src", root / "include"})
    for (const auto& file : sources(folder)) {
      std::ifstream in{file};
      std::string text;
      while (std::getline(in, text)) EXPECT_FALSE(std::regex_search(text, conditional)) << file << ": " << text;
    }
}

// One name, one type: of those in headers that stand in a namespace. A nested type is read beside its class, a specialization is its
// template.
TEST(House, EachNameInTheHeadersHasOneType) {
  static const std::regex type{R"(^(?:template\s*<[^>]*>\s*)?(?:struct|class|enum class) ([A-Z]\w*)(?: final)?(?: : [^;(]*)?\s*\{)"};
  std::map<std::string, std::set<std::string>> places;
  for (const auto& folder : {root / "src", root / "include"})
    for (const auto& file : sources(folder)) {
      if (file.extension() != ".hpp") continue;
      std::ifstream in{file};
      std::string text;
      std::smatch match;
      for (int line = 1; std::getline(in, text); ++line)
        if (std::regex_search(text, match, type)) places[match[1]].insert(fs::relative(file, root).string() + ":" + std::to_string(line));
    }
  EXPECT_GT(places.size(), 500U);
  for (const auto& [name, found] : places) EXPECT_EQ(found.size(), 1U) << name << " in " << testing::PrintToString(found);
}

TEST(House, TheRootHoldsWhatTheDesignLists) {
  static const std::set<std::string> listed{
      "CMakeLists.txt", "CMakePresets.json", "README.md", "LICENSE",  "CHANGELOG.md", "src", "include",
      "slurm",          "modules",           "profiles",  "examples", "tests",        "docs"};
  for (const auto& entry : fs::directory_iterator(root)) {
    const auto name = entry.path().filename().string();
    if (name.starts_with(".") || name.starts_with("build") || name == "runs") continue;
    EXPECT_TRUE(listed.contains(name)) << name;
  }
}

TEST(House, FilesAreAboutOneIdea) {
  for (const auto& folder : {root / "src", root / "include"})
    for (const auto& file : sources(folder)) {
      std::ifstream in{file};
      int lines = 0;
      for (std::string text; std::getline(in, text);) ++lines;
      EXPECT_LE(lines, 500) << file;
    }
}

}  // namespace
