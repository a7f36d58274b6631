#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "flotilla/model/config.hpp"
#include "flotilla/plan/plan.hpp"

/// Looking at a model: what it says of texts, and the texts that it goes on with.
namespace flotilla::inference {

/// A model to look at, and where its weights are.
struct Subject {
  std::filesystem::path weights;  ///< a committed checkpoint's directory, or that of a Hugging Face model
  bool is_checkpoint = false;     ///< else Hugging Face's
  model::Config model;
  std::optional<plan::Plan> plan;   ///< that a checkpoint was saved under
  std::filesystem::path tokenizer;  ///< tokenizer.json or tokenizer.model beside the weights or carried along by the run; empty: none
  std::string name;                 ///< for people: "run/step-100"
};

/// `path`: a run directory (its newest checkpoint), a checkpoint's directory or that of a Hugging Face model. Local. Throws
/// Error{bad_input} for anything else, and for what is damaged.
Subject find_subject(const std::filesystem::path&);

}  // namespace flotilla::inference
