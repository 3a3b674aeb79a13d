#pragma once

#include <string_view>
#include <vector>

#include "tests/tidy/tree.h"

namespace ps::tidy {

/// The layer that a path belongs to, e.g. "ps/net", "kernels/cpu", "tests"; "" for none.
std::string_view LayerOf(std::string_view path);

/// The folder table: whether code in layer `from` may use what is in layer `to`.
bool MayUse(std::string_view from, std::string_view to);

/// Every #include "..." exists, is written from the root, and obeys the folder table; every
/// third-party header is named only where it may be.
std::vector<Finding> CheckIncludes(const Tree& tree);

/// LINK and PRIVATE_LINK lists, and target_link_libraries, obey the folder table.
std::vector<Finding> CheckLinks(const Tree& tree);

/// The programs that run by the hundred do not link what only psctl needs, directly or through
/// other targets.
std::vector<Finding> CheckPrograms(const Tree& tree);

}  // namespace ps::tidy
