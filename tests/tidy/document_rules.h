#pragma once

#include <vector>

#include "tests/tidy/tree.h"

namespace ps::tidy {

/// Lines of documents have at most 120 characters; rows of tables, code and lines that begin with a
/// link may be longer. No document below docs has a date in its name: older states are git's.
std::vector<Finding> CheckDocumentShape(const Tree& tree);

/// A link of a document to another document leads to one that exists.
std::vector<Finding> CheckDocumentLinks(const Tree& tree);

/// A file that a document names in backticks by its path from the root is there.
std::vector<Finding> CheckNamedFiles(const Tree& tree);

/// A test that a document names, as `SuiteTest` or `SuiteTest.Name`, is a test of this repository.
std::vector<Finding> CheckNamedTests(const Tree& tree);

}  // namespace ps::tidy
