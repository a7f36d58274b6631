#pragma once
#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "document.hpp"
#include "flotilla/base/text.hpp"
#include "flotilla/model/config.hpp"

/// What readers of a family's config.json share.
namespace flotilla::files::config_json {

/// Members of a config.json. Hugging Face leaves out, or sets to null, what has its default.
class Keys {
 public:
  explicit Keys(Json object) : object_{std::move(object)} {}

  int integer(std::string_view key, int otherwise, int least = 1) const { return given(key) ? object_.get_int(key, least) : otherwise; }
  double number(std::string_view key, double otherwise) const { return given(key) ? object_.get_double(key) : otherwise; }
  bool flag(std::string_view key, bool otherwise) const { return given(key) ? object_.get_bool(key) : otherwise; }
  std::string name(std::string_view key, std::string_view otherwise) const {
    return given(key) ? object_.get_string(key) : std::string{otherwise};
  }

  bool is_null(std::string_view key) const { return object_.has(key) && object_.at(key).is_null(); }
  /// A member that is an object or an array.
  std::optional<Json> member(std::string_view key) const { return given(key) ? std::optional<Json>{object_.at(key)} : std::nullopt; }

  /// That nobody may leave out: it has no default.
  const Keys& must_have(std::string_view key, std::string_view what) const {
    if (!given(key)) refuse(key, text("is missing; ", what, " has no default for it"));
    return *this;
  }
  /// Refuses a member that means nothing here, or something that nobody reads.
  void require_known(std::initializer_list<std::string_view> known, std::string_view what) const {
    for (const auto& key : object_.keys())
      if (given(key) && std::ranges::find(known, key) == known.end())
        refuse(key, text("means nothing to ", what, ", or something that Flotilla does not train; leave it out"));
  }

  void require_flag(std::string_view key, bool expected, bool otherwise) const {
    if (flag(key, otherwise) == expected) return;
    refuse(key, text("expected ", expected ? "true" : "false", "; Flotilla does not train the other kind"));
  }
  void require_number(std::string_view key, double expected, double otherwise) const {
    if (number(key, otherwise) != expected) refuse(key, text("expected ", expected, ", got ", number(key, otherwise)));
  }
  [[noreturn]] void refuse(std::string_view key, const std::string& what) const {
    if (object_.has(key)) object_.at(key).refuse(what);
    object_.refuse(text(key, ": ", what));
  }

 private:
  bool given(std::string_view key) const { return object_.has(key) && !object_.at(key).is_null(); }
  Json object_;
};

inline constexpr int most_listed_blocks = 4096;  ///< lists of blocks are written out

/// What differs between the models that are built like Llama, where their config.json leaves it out.
struct LlamaDefaults {
  int feed_forward, vocabulary, positions, key_value_heads;  ///< 0 heads of keys and values: as many as of queries
  int head = 0;                                              ///< columns of a head; 0: hidden_size / num_attention_heads
  int blocks = 32, hidden = 4096, heads = 32;
  bool tied_head = false;
};

/// Norms without mean and bias, SwiGLU, rotation and no biases.
void like_llama(const Keys&, model::Config&, const LlamaDefaults& otherwise);
/// Windows of the blocks from max_window_layers on.
std::vector<int> qwen2_windows(const Keys&, int blocks);

// Families whose blocks have experts.
void mixtral(const Keys&, model::Config&);
void qwen2_moe(const Keys&, model::Config&);
void qwen3_moe(const Keys&, model::Config&);
void olmoe(const Keys&, model::Config&);
void deepseek(const Keys&, model::Config&);

}  // namespace flotilla::files::config_json
