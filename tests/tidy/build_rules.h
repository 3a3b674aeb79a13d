#pragma once

#include <vector>

#include "tests/tidy/tree.h"

namespace ps::tidy {

/// Every .cc and .cu is named by the CMakeLists.txt of its folder or of one above it.
std::vector<Finding> CheckSourcesAreBuilt(const Tree& tree);

/// Every folder of the architecture says in a README.md what it is for, within a page.
std::vector<Finding> CheckReadmes(const Tree& tree);

/// No source folder at the top beside the architecture's.
std::vector<Finding> CheckTopLevel(const Tree& tree);

}  // namespace ps::tidy
