#pragma once

namespace ps::psctl {

/// Set by the build from the project's version.
inline constexpr const char* kVersion = PS_VERSION;

}  // namespace ps::psctl
