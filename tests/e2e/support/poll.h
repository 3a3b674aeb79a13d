#pragma once

#include <chrono>
#include <functional>

#include "ps/base/time.h"

namespace ps::e2e {

/// Sanitizers make everything slower: deadlines grow, and some tests do less.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kIsSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif
#else
inline constexpr bool kIsSanitized = false;
#endif

/// For what should take an instant or a few seconds, on a machine that may be busy.
inline constexpr Duration kPatience = std::chrono::seconds(kIsSanitized ? 60 : 30);
/// For a whole run.
inline constexpr Duration kRunPatience = std::chrono::seconds(kIsSanitized ? 240 : 120);

/// Looks every few milliseconds until `condition` holds. False when it did not in time.
bool WaitUntil(
    const std::function<bool()>& condition,
    Duration deadline = kPatience,
    Duration period = std::chrono::milliseconds(10));

}  // namespace ps::e2e
