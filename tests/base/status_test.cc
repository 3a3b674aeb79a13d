#include "ps/base/status.h"

#include <memory>
#include <set>
#include <sstream>

#include "gtest/gtest.h"

namespace ps {
namespace {

TEST(StatusTest, OkCostsOnePointerAndSaysOk) {
  static_assert(sizeof(Status) == sizeof(void*));
  const Status status;
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(status.code(), StatusCode::kOk);
  EXPECT_EQ(status.message(), "");
  EXPECT_EQ(status.ToString(), "ok");
}

TEST(StatusTest, OkWithAMessageIsStillOk) {
  EXPECT_TRUE(Status(StatusCode::kOk, "ignored").ok());
}

TEST(StatusTest, EveryCodeHasItsOwnName) {
  std::set<std::string_view> names;
  for (int code = 0; code < kStatusCodeCount; ++code) {
    names.insert(StatusCodeName(static_cast<StatusCode>(code)));
  }
  EXPECT_EQ(names.size(), static_cast<size_t>(kStatusCodeCount));
  EXPECT_EQ(names.count("unknown"), 0U);
  // A number that came over the wire and is no code.
  EXPECT_EQ(StatusCodeName(static_cast<StatusCode>(200)), "unknown");
}

TEST(StatusTest, FactoriesMakeTheirCode) {
  EXPECT_EQ(Status::Cancelled("").code(), StatusCode::kCancelled);
  EXPECT_EQ(Status::DeadlineExceeded("").code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(Status::Unavailable("").code(), StatusCode::kUnavailable);
  EXPECT_EQ(Status::Overloaded("").code(), StatusCode::kOverloaded);
  EXPECT_EQ(Status::Stale("").code(), StatusCode::kStale);
  EXPECT_EQ(Status::Revoked("").code(), StatusCode::kRevoked);
  EXPECT_EQ(Status::NotFound("").code(), StatusCode::kNotFound);
  EXPECT_EQ(Status::InvalidArgument("").code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Status::Corruption("").code(), StatusCode::kCorruption);
  EXPECT_EQ(Status::Io("").code(), StatusCode::kIo);
  EXPECT_EQ(Status::Unsupported("").code(), StatusCode::kUnsupported);
}

TEST(StatusTest, AnnotationPutsTheOutermostFirst) {
  const Status status =
      Status::Unavailable("connection refused").Annotate("shard 3").Annotate("pull");
  EXPECT_EQ(status.ToString(), "unavailable: pull: shard 3: connection refused");
  EXPECT_TRUE(Status::Ok().Annotate("pull").ok());
}

TEST(StatusTest, ACopyIsIndependent) {
  const Status original = Status::Io("disk full");
  Status copy = original;
  copy = std::move(copy).Annotate("log");
  EXPECT_EQ(original.message(), "disk full");
  EXPECT_EQ(copy.message(), "log: disk full");
  copy = Status();
  EXPECT_TRUE(copy.ok());
  const Status& self = copy;
  copy = self;
  EXPECT_TRUE(copy.ok());
}

TEST(StatusTest, PrintsToAStream) {
  std::ostringstream out;
  out << Status::Stale("generation 4") << " " << Status();
  EXPECT_EQ(out.str(), "stale: generation 4 ok");
}

Result<int> HalfOf(int value) {
  if (value % 2 != 0) {
    return Status::InvalidArgument("odd");
  }
  return value / 2;
}

Status TryTwice(int value, int* calls) {
  PS_TRY(HalfOf(value).status());
  ++*calls;
  PS_TRY(HalfOf(value / 2).status());
  ++*calls;
  return {};
}

TEST(StatusMacroTest, TryReturnsTheFirstFailure) {
  int calls = 0;
  EXPECT_TRUE(TryTwice(4, &calls).ok());
  EXPECT_EQ(calls, 2);
  calls = 0;
  EXPECT_EQ(TryTwice(6, &calls).message(), "odd");
  EXPECT_EQ(calls, 1);
}

Result<int> QuarterOf(int value) {
  PS_ASSIGN(const int half, HalfOf(value));
  int quarter = 0;
  PS_ASSIGN(quarter, HalfOf(half));
  return quarter;
}

TEST(StatusMacroTest, AssignDeclaresAssignsOrReturns) {
  EXPECT_EQ(*QuarterOf(8), 2);
  EXPECT_EQ(QuarterOf(6).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(QuarterOf(7).status().code(), StatusCode::kInvalidArgument);
}

Result<std::unique_ptr<int>> MakeOwned(bool is_wanted) {
  if (!is_wanted) {
    return Status::NotFound("none");
  }
  return std::make_unique<int>(5);
}

Result<std::unique_ptr<int>> PassOn(bool is_wanted) {
  PS_ASSIGN(auto owned, MakeOwned(is_wanted));
  return owned;
}

TEST(ResultTest, AMoveOnlyValuePassesThrough) {
  Result<std::unique_ptr<int>> result = PassOn(true);
  ASSERT_TRUE(result.ok());
  const std::unique_ptr<int> value = std::move(result).value();
  EXPECT_EQ(*value, 5);
  EXPECT_FALSE(PassOn(false).ok());
}

TEST(ResultTest, AnnotateKeepsValuesAndExtendsFailures) {
  EXPECT_EQ(*HalfOf(4).Annotate("half"), 2);
  EXPECT_EQ(HalfOf(3).Annotate("half").status().message(), "half: odd");
}

TEST(ResultTest, StatusOfAValueIsOk) {
  EXPECT_TRUE(HalfOf(4).status().ok());
}

TEST(ResultDeathTest, TakingTheValueOfAFailureSaysTheFailure) {
  const Result<int> result = HalfOf(1);
  EXPECT_DEATH({ EXPECT_EQ(result.value(), 0); }, "invalid argument: odd");
}

TEST(ResultDeathTest, AResultFromAnOkStatusIsABug) {
  EXPECT_DEATH({ const Result<int> result{Status()}; }, "needs an error");
}

}  // namespace
}  // namespace ps
