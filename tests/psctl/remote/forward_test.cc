#include "psctl/remote/forward.h"

#include <gtest/gtest.h>

namespace ps::psctl {
namespace {

TEST(WordsOnHeadTest, TheRunIsTheOneThatIsThere) {
  EXPECT_EQ(WordsOnHead({"status", "mnist", "--json"}, "mnist"), " 'status' runs/* '--json'");
  EXPECT_EQ(WordsOnHead({"scale", "mnist", "workers=2"}, "mnist"), " 'scale' runs/* 'workers=2'");
}

TEST(WordsOnHeadTest, WhereNoRunIsNamedItComesLast) {
  EXPECT_EQ(WordsOnHead({"status"}, ""), " 'status' runs/*");
  EXPECT_EQ(WordsOnHead({"mode", "bsp"}, ""), " 'mode' 'bsp' runs/*");
  EXPECT_EQ(WordsOnHead({"checkpoint", "list"}, ""), " 'checkpoint' 'list' runs/*");
}

TEST(WordsOnHeadTest, AJobThatIsCalledAsACommandIsNoCommand) {
  EXPECT_EQ(WordsOnHead({"stop", "stop"}, "stop"), " 'stop' runs/*");
}

TEST(WordsOnHeadTest, NoWordIsReadByAShell) {
  EXPECT_EQ(
      WordsOnHead({"set", "a=$(reboot)", "it's"}, "none"),
      " 'set' 'a=$(reboot)' 'it'\\''s' runs/*");
}

}  // namespace
}  // namespace ps::psctl
