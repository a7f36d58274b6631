#pragma once
#include <filesystem>
#include <optional>

#include "document.hpp"
#include "flotilla/files/sailor.hpp"

/// Parts of the Sailor artifact's import.
namespace flotilla::files {

/// A library in the making.
class SailorLibrary {
 public:
  explicit SailorLibrary(std::filesystem::path directory) : directory_{std::move(directory)} {}

  SailorImport import;

  cluster::Profile& profile() { return import.library.profile; }
  const std::filesystem::path& directory() const { return directory_; }
  /// The document at that path below the directory; where it is missing, notes that without it there is no `what`.
  std::optional<Json> read(const std::filesystem::path& relative, std::string_view what);
  /// Each line once.
  void note(const std::string& line);
  /// The type of that name, added with the memory that the artifact takes it to have; false, and noted, where it knows none such.
  bool has_type(const std::string& name);
  /// The model of that name, added where the artifact or its configs/ know its shape; nullptr, and noted, where not.
  const model::Config* model(const std::string& name);

 private:
  std::optional<model::Config> configured_model(const std::string& name);
  std::filesystem::path directory_;
};

void read_sailor_types(SailorLibrary&);
void read_sailor_times(SailorLibrary&);
void read_sailor_sizes(SailorLibrary&);
void read_sailor_network(SailorLibrary&);
void read_sailor_prices(SailorLibrary&);

/// The key of the member at `place`, a whole number from 0 or 1.
int number_key(const Json& object, const std::string& key, int least = 1);

}  // namespace flotilla::files
