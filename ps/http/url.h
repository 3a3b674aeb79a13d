#pragma once

#include <string>
#include <string_view>

namespace ps {

/// As in a path or a query: all but letters, digits and "-._~" become %XX; slashes stay when
/// `keep_slashes`.
std::string PercentEncoded(std::string_view text, bool keep_slashes = false);

/// What %XX stands for; what is no such thing stays.
std::string PercentDecoded(std::string_view text, bool is_plus_blank);

}  // namespace ps
