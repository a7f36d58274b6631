#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "document.hpp"
#include "encoding.hpp"

/// JSON lines that hold no document.
namespace flotilla::ingest {

/// A line with what JSON lacks put right: U+FFFD for lone surrogates and for bytes that are no UTF-8, null for NaN and infinities.
struct RepairedLine {
  std::string text;
  std::string reason;  ///< the first kind of what was put right; empty: nothing was
};
RepairedLine repaired_line(std::string_view);

/// The document of a JSON line; none where it is left out. Counts what is bad. Throws Error{bad_input} with the item's place for what is
/// refused, and for what cannot be repaired.
std::optional<Document> document_of_line(const DocumentPart&, const Encoding&, Counts&);

}  // namespace flotilla::ingest
