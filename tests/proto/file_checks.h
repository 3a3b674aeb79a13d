#pragma once

#include <gtest/gtest.h>

#include <string>

#include "ps/base/status.h"
#include "ps/proto/job/job_config.h"
#include "tests/proto/members.h"

// What the tests of the files that people write have in common.

namespace ps::tests {

/// Why a text was refused.
template <typename T>
std::string ErrorOf(const Result<T>& parsed) {
  return parsed.ok() ? "no error" : std::string(parsed.status().message());
}

/// What a type has beside its fields: it follows from them when the file is read.
template <typename T>
inline constexpr size_t kDerivedMembers = 0;
template <>
inline constexpr size_t kDerivedMembers<proto::TrainConfig> = 1;  // adapts_local_steps

/// VisitFields of each type leaves out no member.
template <typename... T>
void ExpectAllMembersVisited() {
  const auto expect = []<typename One>(One value) {
    size_t visited = 0;
    VisitFields(value, [&](const char*, auto&) { ++visited; });
    EXPECT_EQ(visited, MemberCount<One>() - kDerivedMembers<One>) << __PRETTY_FUNCTION__;
  };
  (expect(T()), ...);
}

}  // namespace ps::tests
