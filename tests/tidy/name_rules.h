#pragma once

#include <vector>

#include "tests/tidy/tree.h"

namespace ps::tidy {

/// A fresh build compiles several sources of a target as one, so their unnamed namespaces are one:
/// constants, types and functions (by the types of their parameters) have different names there.
/// Which sources meet changes with every file that is added.
std::vector<Finding> CheckNamesOfJoinedSources(const Tree& tree);

}  // namespace ps::tidy
