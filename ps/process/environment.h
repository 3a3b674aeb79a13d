#pragma once

#include <functional>
#include <optional>
#include <string>

namespace ps {

/// The value of an environment variable; nothing when it is not set, or empty.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

/// That of this process: for what every program finds there, such as access keys.
Environment ProcessEnvironment();

}  // namespace ps
