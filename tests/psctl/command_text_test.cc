#include "psctl/cli/command_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "ps/base/file.h"
#include "psctl/cli/command_line.h"
#include "psctl/commands.h"
#include "tests/base/temporary_folder.h"

namespace ps::psctl {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// What the shell prints for `script`.
std::string ShellOutput(const std::string& shell, const std::string& script) {
  const TemporaryFolder folder;
  const std::string path = folder / "script";
  EXPECT_TRUE(WriteFileAtomically(path, script).ok());
  std::string out;
  FILE* const pipe = ::popen((shell + " " + path + " 2>&1").c_str(), "r");
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) {
    out += static_cast<char>(c);
  }
  ::pclose(pipe);
  return out;
}

/// What bash offers after the words; the last one is being typed.
std::string Offered(const std::string& words, int count) {
  return ShellOutput(
      "bash",
      BashCompletion(DescribeCommands(AllCommands())) +
          "psctl() { [[ \"$*\" == \"runs --names\" ]] && printf 'run-a\\nrun-b\\n'; }\n"
          "COMP_WORDS=(" +
          words + ")\nCOMP_CWORD=" + std::to_string(count - 1) +
          "\n_psctl\nprintf '%s ' \"${COMPREPLY[@]}\"\n");
}

TEST(CompletionTest, BashOffersCommandsFlagsChoicesAndRuns) {
  EXPECT_EQ(Offered("psctl tr", 2), "train ");
  EXPECT_EQ(Offered("psctl catalog ''", 3), "show check import refresh ");
  EXPECT_EQ(Offered("psctl train --pr", 3), "--profile --print-config ");
  EXPECT_EQ(Offered("psctl catalog show --so", 4), "--sort ");
  EXPECT_EQ(Offered("psctl completion ''", 3), "bash zsh ");
  EXPECT_EQ(Offered("psctl status ''", 3), "run-a run-b ");
  EXPECT_EQ(Offered("psctl stop --now run-b", 4), "run-b ");
  EXPECT_EQ(Offered("psctl help pl", 3), "plan ");
  EXPECT_EQ(Offered("psctl train ''", 3), " ") << "files, which bash knows itself";
}

TEST(CompletionTest, ZshTakesTheScript) {
  if (std::system("command -v zsh > /dev/null") != 0) {
    GTEST_SKIP() << "zsh is not installed";
  }
  const std::string out = ShellOutput(
      "zsh -f",
      "compdef() { }\n_describe() { print -r -- $@ ${(P)argv[-1]}; }\n_files() { print files; }\n" +
          ZshCompletion(DescribeCommands(AllCommands())) +
          "words=(psctl catalog '') CURRENT=3 PREFIX=''\n_psctl\n"
          "words=(psctl train --se) CURRENT=3 PREFIX=--se\n_psctl\n"
          "words=(psctl train j) CURRENT=3 PREFIX=j\n_psctl\n");
  EXPECT_THAT(
      out,
      AllOf(
          HasSubstr("show:Show types, prices and how old they are"),
          HasSubstr("--set:Change a field"),
          HasSubstr("\nfiles\n"),
          Not(HasSubstr("error"))));
}

TEST(ManPageTest, HasEveryCommandWithItsFlags) {
  const std::string page = ManPage(AllCommands());
  for (const CommandText& command : DescribeCommands(AllCommands()).commands) {
    for (const CommandText& leaf :
         command.commands.empty() ? std::vector<CommandText>{command} : command.commands) {
      EXPECT_THAT(page, HasSubstr(".SS \"psctl " + leaf.path + "\""));
      EXPECT_FALSE(leaf.text.empty()) << leaf.path;
      for (const ArgumentText& argument : leaf.arguments) {
        EXPECT_FALSE(argument.text.empty()) << leaf.path << " " << argument.names.front();
      }
    }
  }
  EXPECT_THAT(page, AllOf(HasSubstr("\\-\\-print\\-config"), HasSubstr(".SH \"EXIT CODES\"")));
}

TEST(ManPageTest, ManTakesItWithoutAWarning) {
  if (std::system("command -v man > /dev/null") != 0) {
    GTEST_SKIP() << "man is not installed";
  }
  const TemporaryFolder folder;
  const std::string path = folder / "psctl.1";
  ASSERT_TRUE(WriteFileAtomically(path, ManPage(AllCommands())).ok());
  const std::string out = ShellOutput(
      "bash",
      "LC_ALL=C MANROFFSEQ= MANWIDTH=80 man --warnings -E ascii -l " + path + " 2>&1 >/dev/null");
  EXPECT_EQ(out, "");
}

}  // namespace
}  // namespace ps::psctl
