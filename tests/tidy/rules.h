#pragma once

#include <string_view>
#include <vector>

#include "tests/tidy/tree.h"

// The rules; each returns what it finds.

namespace ps::tidy {

// text_rules.cc

/// Lines of code, CMake and scripts have at most 100 characters, no tab, no trailing blank; every
/// file ends with a newline and has at most 800 lines.
std::vector<Finding> CheckShape(const Tree& tree);

/// Names that the house does without, outside the few files that may have them.
std::vector<Finding> CheckBannedNames(const Tree& tree);

/// Marks for later work, NOLINT without its check's name, and comments that begin with "Of".
std::vector<Finding> CheckMarks(const Tree& tree);

/// The first statement of a program's main is OpenStandardStreams() of ps/process/process_start.h.
std::vector<Finding> CheckMains(const Tree& tree);

/// Headers begin with #pragma once; a .cc includes its own header first.
std::vector<Finding> CheckHeaders(const Tree& tree);

// document_rules.cc

/// Lines of documents have at most 120 characters; rows of tables, code and lines that begin with a
/// link may be longer. No document below docs has a date in its name: older states are git's.
std::vector<Finding> CheckDocumentShape(const Tree& tree);

/// A link of a document leads to a file or folder that exists, and to a heading that is there.
std::vector<Finding> CheckDocumentLinks(const Tree& tree);

/// A file that a document names in backticks by its path from the root is there.
std::vector<Finding> CheckNamedFiles(const Tree& tree);

/// A test that a document names, as `SuiteTest` or `SuiteTest.Name`, is a test of this repository.
std::vector<Finding> CheckNamedTests(const Tree& tree);

// build_rules.cc

/// Every .cc and .cu is named by the CMakeLists.txt of its folder or of one above it.
std::vector<Finding> CheckSourcesAreBuilt(const Tree& tree);

/// Every folder of the architecture says in a README.md what it is for, within a page.
std::vector<Finding> CheckReadmes(const Tree& tree);

/// No source folder at the top beside the architecture's.
std::vector<Finding> CheckTopLevel(const Tree& tree);

/// No folder has more than 40 files of code beside each other.
std::vector<Finding> CheckFolders(const Tree& tree);

// layer_rules.cc

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

// name_rules.cc

/// A fresh build compiles several sources of a target as one, so their unnamed namespaces are one:
/// constants, types and functions (by the types of their parameters) have different names there.
/// Which sources meet changes with every file that is added.
std::vector<Finding> CheckNamesOfJoinedSources(const Tree& tree);

}  // namespace ps::tidy
