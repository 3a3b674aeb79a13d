#pragma once

#include <vector>

#include "tests/tidy/tree.h"

namespace ps::tidy {

/// Lines of code, CMake and scripts have at most 100 characters, no tab, no trailing blank; every
/// file ends with a newline and has at most 800 lines.
std::vector<Finding> CheckShape(const Tree& tree);

/// Names that the house does without, outside the few files that may have them.
std::vector<Finding> CheckBannedNames(const Tree& tree);

/// Marks for later work, and NOLINT without its check's name.
std::vector<Finding> CheckMarks(const Tree& tree);

/// Headers begin with #pragma once; a .cc includes its own header first.
std::vector<Finding> CheckHeaders(const Tree& tree);

}  // namespace ps::tidy
