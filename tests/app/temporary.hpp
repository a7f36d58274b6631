#pragma once
#include "temporary_folder.hpp"

namespace flotilla::app {

using tests::content;
using tests::error_of;
using tests::TemporaryFolder;

}  // namespace flotilla::app
