#pragma once

#include <cstdint>

namespace ps::run {

inline constexpr const char* kToday = "2026-08-01";
inline constexpr int64_t kNoonMicros = 1'706'702'400'000'000;  // 2024-01-31 12:00:00 UTC

}  // namespace ps::run
