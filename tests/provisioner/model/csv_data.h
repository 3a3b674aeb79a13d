#pragma once

#include <map>
#include <string>
#include <vector>

namespace ps::provisioner {

/// The rows of a file under tests/data, cells by column name. `path` is relative to the root of the
/// source tree, which tests run in. A file that can't be read fails the test and gives no rows.
std::vector<std::map<std::string, std::string>> LoadCsv(const std::string& path);

}  // namespace ps::provisioner
