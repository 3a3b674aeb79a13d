#include "ps/proto/event.h"

#include <gtest/gtest.h>

#include <cctype>
#include <string>
#include <string_view>
#include <utility>

namespace ps::proto {
namespace {

/// "worker_lost" of EventCode::kWorkerLost.
template <EventCode kCode>
std::string NameOf() {
  std::string_view function = __PRETTY_FUNCTION__;
  function.remove_prefix(function.rfind("::k") + 3);
  std::string name;
  for (const char c : function.substr(0, function.find_first_of(";]"))) {
    const bool is_upper = std::isupper(static_cast<unsigned char>(c)) != 0;
    name += is_upper && !name.empty() ? "_" : "";
    name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return name;
}

TEST(EventTest, TheLogsNameOfEachIsTheCodes) {
  constexpr auto kCount = static_cast<size_t>(EventCode::kMachinesLeft) + 1;
  [&]<size_t... I>(std::index_sequence<I...>) {
    const auto check = [](EventCode code, const std::string& name) {
      EXPECT_EQ(EventCodeName(code), name);
      EXPECT_EQ(FindEventCode(name), code);
    };
    (check(static_cast<EventCode>(I), NameOf<static_cast<EventCode>(I)>()), ...);
  }
  (std::make_index_sequence<kCount>());
}

TEST(EventTest, IsASentenceOfItsFields) {
  const EventRow event =
      MakeEvent(EventCode::kScaled, {{"workers", 8}, {"workers_before", 4}, {"by", "plan"}});
  EXPECT_EQ(event.text, "8 workers wanted, 4 before; asked by plan");
  EXPECT_EQ(event.by, "plan");
  EXPECT_EQ(event.kind, EventKind::kScale);
  EXPECT_EQ(
      MakeEvent(EventCode::kScaled, {{"workers", 8}, {"workers_before", 4}}).text,
      "8 workers wanted, 4 before");
  EXPECT_EQ(MakeEvent(EventCode::kScaled, {}).text, "") << "a field lacks";
}

}  // namespace
}  // namespace ps::proto
