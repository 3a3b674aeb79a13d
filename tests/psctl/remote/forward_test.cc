#include "psctl/remote/forward.h"

#include <gtest/gtest.h>

namespace ps::psctl {
namespace {

TEST(WordsOnHeadTest, TheRunIsTheOneThatIsThere) {
  EXPECT_EQ(WordsOnHead({"status", "mnist", "--json"}, "mnist"), " 'status' \"${run%/}\" '--json'");
  EXPECT_EQ(
      WordsOnHead({"scale", "mnist", "workers=2"}, "mnist"), " 'scale' \"${run%/}\" 'workers=2'");
}

TEST(WordsOnHeadTest, WhereNoRunIsNamedItComesLast) {
  EXPECT_EQ(WordsOnHead({"status"}, ""), " 'status' \"${run%/}\"");
  EXPECT_EQ(WordsOnHead({"mode", "bsp"}, ""), " 'mode' 'bsp' \"${run%/}\"");
  EXPECT_EQ(WordsOnHead({"checkpoint", "list"}, ""), " 'checkpoint' 'list' \"${run%/}\"");
}

TEST(WordsOnHeadTest, AJobThatIsCalledAsACommandIsNoCommand) {
  EXPECT_EQ(WordsOnHead({"stop", "stop"}, "stop"), " 'stop' \"${run%/}\"");
}

TEST(WordsOnHeadTest, NoWordIsReadByAShell) {
  EXPECT_EQ(
      WordsOnHead({"set", "a=$(reboot)", "it's"}, "none"),
      " 'set' 'a=$(reboot)' 'it'\\''s' \"${run%/}\"");
}

}  // namespace
}  // namespace ps::psctl
