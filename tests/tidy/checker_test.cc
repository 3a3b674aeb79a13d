// The checker itself, seen failing: small trees with one thing wrong each.

#include <algorithm>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/tidy/cmake_reader.h"
#include "tests/tidy/rules.h"
#include "tests/tidy/tree.h"

namespace ps::tidy {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Tree MakeTree(std::vector<File> files) {
  std::sort(
      files.begin(), files.end(), [](const File& a, const File& b) { return a.path < b.path; });
  return files;
}

/// The only finding's message; the findings as text when there is not exactly one.
std::string Only(const std::vector<Finding>& findings) {
  return findings.size() == 1 ? findings.front().message : "not one finding:\n" + Print(findings);
}

std::vector<Finding> Includes(const std::string& path, const std::string& line) {
  return CheckIncludes(MakeTree(
      {{path, line + "\n"},
       {"ps/base/status.h", ""},
       {"ps/net/loop.h", ""},
       {"ps/server/shard.h", ""},
       {"kernels/cpu/gemm.h", ""},
       {"kernels/cuda/gemm.h", ""},
       {"worker/data/idx.h", ""},
       {"tests/sim/oracle/oracle.h", ""}}));
}

TEST(IncludeRuleTest, WhatTheTableAllowsPasses) {
  EXPECT_THAT(Includes("ps/net/a.cc", "#include \"ps/base/status.h\""), IsEmpty());
  EXPECT_THAT(Includes("ps/server/a.cc", "#include \"kernels/cpu/gemm.h\""), IsEmpty());
  EXPECT_THAT(Includes("run/report/a.cc", "#include \"worker/data/idx.h\""), IsEmpty());
  EXPECT_THAT(Includes("tests/e2e/a.cc", "#include \"ps/server/shard.h\""), IsEmpty());
  EXPECT_THAT(Includes("ps/base/a.cc", "#include <vector>"), IsEmpty());
}

TEST(IncludeRuleTest, WhatTheTableForbidsIsFound) {
  EXPECT_EQ(
      Only(Includes("ps/base/a.cc", "#include \"ps/net/loop.h\"")), "ps/base may not use ps/net");
  EXPECT_EQ(
      Only(Includes("ps/server/a.cc", "#include \"worker/data/idx.h\"")),
      "ps/server may not use worker/data");
  EXPECT_EQ(
      Only(Includes("worker/a.cc", "  #include \"ps/server/shard.h\"")),
      "worker may not use ps/server");
  EXPECT_EQ(
      Only(Includes("ps/server/a.cc", "#include \"kernels/cuda/gemm.h\"")),
      "ps/server may not use kernels/cuda");
  EXPECT_EQ(
      Only(Includes("psctl/a.cc", "#include \"tests/sim/oracle/oracle.h\"")),
      "psctl may not use tests");
}

TEST(IncludeRuleTest, AnIncludeInACommentIsNone) {
  EXPECT_THAT(Includes("ps/base/a.cc", "// #include \"ps/net/loop.h\""), IsEmpty());
  EXPECT_THAT(Includes("ps/base/a.cc", "/*\n#include \"ps/net/loop.h\"\n*/"), IsEmpty());
}

TEST(IncludeRuleTest, PathsAreWrittenFromTheRootWithQuotes) {
  EXPECT_THAT(Only(Includes("ps/net/a.cc", "#include \"loop.h\"")), HasSubstr("from its root"));
  EXPECT_THAT(Only(Includes("ps/net/a.cc", "#include \"ps/net/gone.h\"")), HasSubstr("is no file"));
  EXPECT_THAT(Only(Includes("ps/net/a.cc", "#include <ps/net/loop.h>")), HasSubstr("quotes"));
}

TEST(IncludeRuleTest, EachThirdPartyLibraryHasItsFolder) {
  EXPECT_THAT(Includes("ps/net/a.cc", "#include <asio.hpp>"), IsEmpty());
  EXPECT_THAT(Includes("tests/base/a.cc", "#include \"gtest/gtest.h\""), IsEmpty());
  EXPECT_THAT(Includes("ps/server/a.cc", "#include <fmt/core.h>"), IsEmpty());
  EXPECT_THAT(Includes("psctl/a.cc", "#include <fmt/core.h>"), IsEmpty());
  EXPECT_THAT(Only(Includes("worker/a.cc", "#include <asio/ip/tcp.hpp>")), HasSubstr("Asio"));
  EXPECT_THAT(Only(Includes("worker/a.cc", "#include <sys/socket.h>")), HasSubstr("sockets"));
  EXPECT_THAT(Only(Includes("ps/net/a.cc", "#include <flatbuffers/base.h>")), HasSubstr("Flat"));
  EXPECT_THAT(Only(Includes("worker/a.cc", "#include <dnnl.hpp>")), HasSubstr("oneDNN"));
  EXPECT_THAT(Only(Includes("worker/a.cc", "#include <cuda_runtime.h>")), HasSubstr("CUDA"));
  EXPECT_THAT(Only(Includes("ps/server/a.cc", "#include <rocksdb/db.h>")), HasSubstr("RocksDB"));
  EXPECT_THAT(Only(Includes("worker/a.cc", "#include <CLI/CLI.hpp>")), HasSubstr("CLI11"));
  EXPECT_THAT(Only(Includes("psctl/a.cc", "#include <zlib.h>")), HasSubstr("zlib"));
  EXPECT_THAT(Only(Includes("ps/base/a.cc", "#include \"gtest/gtest.h\"")), HasSubstr("Google"));
  EXPECT_THAT(
      Only(Includes("ps/net/a.cc", "#include \"job_generated.h\"")), HasSubstr("ps/proto's"));
  EXPECT_THAT(Includes("kernels/cpu/a.cc", "#include \"kernels/a_generated.h\""), IsEmpty());
  EXPECT_THAT(
      Only(Includes("ps/net/a.cc", "#include \"kernels/a_generated.h\"")),
      HasSubstr("ps/net may not use kernels"));
}

std::vector<Finding> Links(const std::string& path, const std::string& text) {
  return CheckLinks(MakeTree(
      {{path, text},
       {"ps/base/CMakeLists.txt", "ps_library(ps_base SOURCES a.cc)"},
       {"ps/net/CMakeLists.txt",
        "ps_library(ps_net SOURCES a.cc LINK ps_base PRIVATE_LINK ps_asio)"},
       {"worker/data/CMakeLists.txt", "ps_library(worker_data SOURCES a.cc)"}}));
}

TEST(LinkRuleTest, WhatTheTableAllowsPasses) {
  EXPECT_THAT(
      Links("ps/client/CMakeLists.txt", "ps_library(c SOURCES a.cc LINK ps_net)"), IsEmpty());
  EXPECT_THAT(
      Links("tests/net/CMakeLists.txt", "ps_test(t LABELS unit SOURCES a.cc LINK ps_net)"),
      IsEmpty());
}

TEST(LinkRuleTest, AWorkerThatLinksThePlannerThroughOthersIsFound) {
  const Tree tree = MakeTree(
      {{"worker/CMakeLists.txt",
        "ps_library(worker_program SOURCES a.cc LINK ps_net)\n"
        "ps_program(ps_worker SOURCES main.cc LINK worker_program)"},
       {"ps/net/CMakeLists.txt", "ps_library(ps_net SOURCES a.cc PRIVATE_LINK ps_proto)"},
       {"ps/proto/CMakeLists.txt",
        "ps_library(ps_proto SOURCES a.cc)\n"
        "target_link_libraries(ps_proto PRIVATE ps_planning_files)"}});
  EXPECT_EQ(
      Only(CheckPrograms(tree)),
      "ps_worker links worker_program links ps_net links ps_proto links ps_planning_files: only "
      "psctl needs that");
}

TEST(LinkRuleTest, WhatTheTableForbidsIsFound) {
  EXPECT_EQ(
      Only(Links("ps/proto/CMakeLists.txt", "ps_library(p SOURCES a.cc\n LINK ps_base ps_net)")),
      "p: ps/proto may not link ps_net of ps/net");
  EXPECT_EQ(
      Only(
          Links("ps/server/CMakeLists.txt", "ps_library(s SOURCES a.cc PRIVATE_LINK worker_data)")),
      "s: ps/server may not link worker_data of worker/data");
  EXPECT_EQ(
      Only(Links(
          "ps/proto/CMakeLists.txt",
          "# comment (\nps_library(p SOURCES a.cc)\ntarget_link_libraries(p PRIVATE ps_net)")),
      "p: ps/proto may not link ps_net of ps/net");
  EXPECT_THAT(
      Only(Links("worker/CMakeLists.txt", "ps_program(w SOURCES a.cc LINK ps_asio)")),
      HasSubstr("Asio is linked in ps/net"));
  EXPECT_THAT(
      Only(Links("worker/CMakeLists.txt", "ps_program(w SOURCES a.cc LINK curl)")),
      HasSubstr("\"curl\" is no target"));
}

TEST(CMakeReaderTest, CommandsHaveTheirLineAndWords) {
  const std::vector<CMakeCommand> commands =
      ReadCommands("# one (\nset(a \"b c\")\n\nif(X AND (Y))\n  f()  # g(\nendif()\n");
  ASSERT_EQ(commands.size(), 4U);
  EXPECT_EQ(commands[0].line, 2);
  EXPECT_THAT(commands[0].words, ElementsAre("a", "b c"));
  EXPECT_THAT(commands[1].words, ElementsAre("X", "AND", "Y"));
  EXPECT_EQ(commands[2].name, "f");
  EXPECT_EQ(commands[3].line, 6);
}

TEST(CMakeReaderTest, AnUnclosedCommandEndsWithTheFile) {
  EXPECT_THAT(ReadCommands("ps_library(a SOURCES").at(0).words, ElementsAre("a", "SOURCES"));
}

std::vector<Finding> Shape(const std::string& path, const std::string& text) {
  return CheckShape({{path, text}});
}

TEST(ShapeRuleTest, LinesOfAHundredCharactersPassAndLongerOnesAreFound) {
  EXPECT_THAT(Shape("ps/base/a.h", std::string(100, 'x') + "\n"), IsEmpty());
  EXPECT_EQ(Only(Shape("ps/base/a.h", std::string(101, 'x') + "\n")), "line of 101 characters");
  std::string umlauts;
  for (int i = 0; i < 100; ++i) {
    umlauts += "ü";
  }
  EXPECT_THAT(Shape("ps/base/a.h", umlauts + "\n"), IsEmpty());
  EXPECT_THAT(Shape("README.md", std::string(300, 'x') + "\n"), IsEmpty());
}

TEST(ShapeRuleTest, TabsTrailingBlanksAndMissingNewlinesAreFound) {
  EXPECT_EQ(Only(Shape("ps/base/a.h", "\tx\n")), "tab");
  EXPECT_EQ(Only(Shape("ps/base/a.h", "x \n")), "blank at the end of the line");
  EXPECT_EQ(Only(Shape("ps/base/a.h", "x")), "no newline at the end of the file");
}

TEST(ShapeRuleTest, FilesOfMoreThanEightHundredLinesAreFound) {
  std::string text;
  for (int i = 0; i < 800; ++i) {
    text += "x\n";
  }
  EXPECT_THAT(Shape("ps/base/a.h", text), IsEmpty());
  EXPECT_EQ(Only(Shape("ps/base/a.h", text + "x\n")), "801 lines; split at 800");
  EXPECT_THAT(Shape("configs/a.fbs", text + "x\n"), IsEmpty()) << "a manual";
}

TEST(DocumentRuleTest, LinesOfProseAreWrappedAt120) {
  const auto shape = [](const std::string& text) {
    return CheckDocumentShape({{"docs/a.md", text + "\n"}});
  };
  const std::string words = std::string(60, 'x') + " " + std::string(59, 'x');
  EXPECT_THAT(shape(words), IsEmpty());
  EXPECT_EQ(Only(shape(words + "x")), "line of 121 characters; wrap documents at 120");
  EXPECT_EQ(shape("- " + words).size(), 1U);
  for (const std::string before : {"| ", "    ", "[text](", "![text](", "```\n"}) {
    EXPECT_THAT(shape(before + words), IsEmpty()) << before;
  }
  EXPECT_EQ(shape("```\ncode\n```\n" + words + "x").size(), 1U);
}

TEST(DocumentRuleTest, ADateInTheNameOfADocumentIsFound) {
  EXPECT_EQ(CheckDocumentShape({{"docs/x/2026-11-22-speed.md", ""}}).size(), 1U);
  EXPECT_THAT(CheckDocumentShape({{"docs/x/speed-26-11.md", ""}}), IsEmpty());
}

TEST(DocumentRuleTest, LinksLeadToFilesFoldersAndHeadings) {
  const auto links = [](const std::string& text) {
    return CheckDocumentLinks(MakeTree(
        {{"docs/a.md", text + "\n## Here\n# Here\n"},
         {"docs/a.svg", ""},
         {"ps/net/README.md", "# ps\n\n## What `x[]` has\n"}}));
  };
  for (const char* text :
       {"[a](../ps/net/README.md#what-x-has)",
        "[a](a.md)",
        "[a](#here)",
        "[a](#here-1)",
        "![a](a.svg)",
        "[a](../ps/net)",
        "[a](https://x.y/z.md)",
        "f[0](a or b)"}) {
    EXPECT_THAT(links(text), IsEmpty()) << text;
  }
  EXPECT_EQ(Only(links("text [a](../ps/README.md) text")), "dead link: ps/README.md");
  EXPECT_EQ(Only(links("![a](b.svg)")), "dead link: docs/b.svg");
  EXPECT_EQ(Only(links("[a](../ps/ne)")), "dead link: ps/ne");
  EXPECT_EQ(Only(links("[a](#there)")), "no heading of docs/a.md is #there");
  EXPECT_EQ(
      Only(links("[a](../ps/net/README.md#part)")), "no heading of ps/net/README.md is #part");
}

TEST(DocumentRuleTest, FilesThatAreNamedExist) {
  const auto named = [](const std::string& text) {
    return CheckNamedFiles(MakeTree({{"README.md", text}, {"ps/net/loop.h", ""}}));
  };
  for (const char* text :
       {"`ps/net/loop.h`", "`loop.cc`", "`ps/net/*.h`", "ps/net/lop.h", "`a`, x/`b` and\n`c"}) {
    EXPECT_THAT(named(text), IsEmpty()) << text;
  }
  EXPECT_EQ(Only(named("`a` and `ps/net/lop.h`.")), "there is no file ps/net/lop.h");
}

TEST(DocumentRuleTest, TestsThatAreNamedExist) {
  const auto named = [](const std::string& text) {
    return CheckNamedTests(MakeTree(
        {{"docs/a.md", text},
         {"tests/base/a_test.cc", "TEST(ATest, Holds) {}\nTEST_F(\n    BTest, HoldsToo) {}"}}));
  };
  EXPECT_THAT(named("`ATest`, `dev.ATest.Holds`, BTest.HoldsToo. Test and GTestX"), IsEmpty());
  EXPECT_EQ(Only(named("`ATest.Breaks`")), "there is no test ATest.Breaks");
  EXPECT_EQ(Only(named("`CTest`")), "there is no test CTest");
}

std::vector<Finding> Banned(const std::string& path, const std::string& text) {
  return CheckBannedNames({{path, text}});
}

TEST(BannedNameTest, BannedNamesAreFoundOnTheirLine) {
  const std::vector<Finding> findings = Banned("worker/a.cc", "int a;\n  std::random_device d;\n");
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].line, 2);
  EXPECT_THAT(findings[0].message, HasSubstr("random_device is banned; use Random"));
  for (const char* line :
       {"asio::detached",
        "std::this_thread::sleep_for(x);",
        "usleep(5);",
        "std::chrono::system_clock::now();",
        "std::chrono::steady_clock::now();",
        "cudaDeviceSynchronize();",
        "::rename(a, b);",
        "std::filesystem::create_directories(a);",
        "throw 1;",
        "std::filesystem::exists(a);",
        "testing::TempDir();",
        "std::getenv(x);",
        "(void)Close();"}) {
    EXPECT_EQ(Banned("worker/a.cc", line).size(), 1U) << line;
  }
}

TEST(BannedNameTest, CommentsLiteralsAndLongerNamesAreFine) {
  for (const char* line :
       {"// throw\n",
        "/* sleep_for */\n",
        "const char* a = \"system_clock\";\n",
        "const char* a = R\"x(\" throw )x\";\n",
        "int rethrow = 1'000; // 'throw'\n",
        "char c = '\"'; int sleep_for_ever = 0;\n",
        "int f(void);\n",
        "int f(void) const;\n",
        "(void)::close(fd);\n",
        "x ? (void)0 : y;\n"}) {
    EXPECT_THAT(Banned("worker/a.cc", line), IsEmpty()) << line;
  }
}

TEST(BannedNameTest, WhoMayUseANameMay) {
  EXPECT_THAT(Banned("ps/base/time.cc", "std::chrono::system_clock::now();"), IsEmpty());
  EXPECT_THAT(Banned("tests/e2e/a.cc", "std::this_thread::sleep_for(x);"), IsEmpty());
  EXPECT_EQ(Banned("tests/net/a.cc", "std::this_thread::sleep_for(x);").size(), 1U);
}

TEST(MainRuleTest, AMainThatOpensItsStandardStreamsLaterOrNeverIsFound) {
  const std::string begin = "\nint main(int argc, char** argv) {\n";
  const std::string first = "  ps::OpenStandardStreams();\n";
  EXPECT_THAT(CheckMains({{"psctl/main.cc", begin + first + "  return 0;\n}\n"}}), IsEmpty());
  EXPECT_EQ(CheckMains({{"psctl/main.cc", begin + "  return 0;\n}\n"}}).size(), 1U);
  EXPECT_EQ(CheckMains({{"psctl/main.cc", begin + "  Begin();\n" + first + "}\n"}}).size(), 1U);
  EXPECT_THAT(CheckMains({{"tests/a.cc", begin + "  return 0;\n}\n"}}), IsEmpty());
}

TEST(MarkRuleTest, MarksForLaterAreFoundEverywhere) {
  EXPECT_EQ(CheckMarks({{"ps/a.cc", "// TODO: later\n"}}).size(), 1U);
  EXPECT_EQ(CheckMarks({{"scripts/a.sh", "# FIXME\n"}}).size(), 1U);
  EXPECT_EQ(CheckMarks({{"README.md", "XXX\n"}}).size(), 1U);
  EXPECT_THAT(CheckMarks({{"ps/a.cc", "mktemp -t a.XXXXXX\n"}}), IsEmpty());
}

TEST(MarkRuleTest, NolintNamesItsCheck) {
  EXPECT_EQ(Only(CheckMarks({{"ps/a.cc", "x  // NOLINT\n"}})), "NOLINT names no check");
  EXPECT_THAT(CheckMarks({{"ps/a.cc", "x  // NOLINT(bugprone-x): why\n"}}), IsEmpty());
}

TEST(MarkRuleTest, ACommentSaysWhatAThingIsBeforeOfWhat) {
  EXPECT_EQ(CheckMarks({{"ps/a.h", "/// Of a value.\nint Bytes();\n"}}).size(), 1U);
  EXPECT_THAT(CheckMarks({{"ps/a.h", "/// The bytes of a value.\nint Bytes();\n"}}), IsEmpty());
}

TEST(HeaderRuleTest, PragmaOnceIsTheFirstCode) {
  EXPECT_THAT(CheckHeaders({{"ps/a.h", "// What this is.\n\n#pragma once\n"}}), IsEmpty());
  EXPECT_EQ(CheckHeaders({{"ps/a.h", "#include <vector>\n#pragma once\n"}}).size(), 1U);
  EXPECT_EQ(CheckHeaders({{"ps/a.h", ""}}).size(), 1U);
}

TEST(HeaderRuleTest, ASourceIncludesItsOwnHeaderFirst) {
  const File header = {"ps/a.h", "#pragma once\n"};
  EXPECT_THAT(
      CheckHeaders({{"ps/a.cc", "#include \"ps/a.h\"\n\n#include <vector>\n"}, header}), IsEmpty());
  EXPECT_EQ(
      CheckHeaders({{"ps/a.cc", "#include <vector>\n#include \"ps/a.h\"\n"}, header}).size(), 1U);
  EXPECT_THAT(CheckHeaders({{"ps/main.cc", "#include <vector>\n"}}), IsEmpty());
}

TEST(BuildRuleTest, ASourceThatNobodyNamesIsFound) {
  const File cmake = {"ps/base/CMakeLists.txt", "ps_library(b SOURCES a.cc x/b.cc)"};
  EXPECT_THAT(
      CheckSourcesAreBuilt(MakeTree({cmake, {"ps/base/a.cc", ""}, {"ps/base/x/b.cc", ""}})),
      IsEmpty());
  EXPECT_EQ(
      Only(CheckSourcesAreBuilt(MakeTree({cmake, {"ps/base/c.cc", ""}}))),
      "no CMakeLists.txt builds this file");
  EXPECT_EQ(
      Only(CheckSourcesAreBuilt(MakeTree({cmake, {"ps/base/c_test.cc", ""}}))),
      "no CMakeLists.txt runs this test");
  EXPECT_EQ(CheckSourcesAreBuilt({{"ps/CMakeLists.txt", "# a.cc\n"}, {"ps/a.cc", ""}}).size(), 1U);
}

TEST(NameRuleTest, NamesThatMeetInAJoinedBuildAreFound) {
  const auto check = [](const std::string& a, const std::string& b, const std::string& target) {
    const std::string begin = "namespace ps {\nnamespace {\n\n";
    const std::string end = "\n}  // namespace\n\nint Public() { return 1; }\n}  // namespace ps\n";
    return CheckNamesOfJoinedSources(MakeTree(
        {{"ps/CMakeLists.txt", "ps_library(" + target + "\n  SOURCES a.cc x/b.cc)\n"},
         {"ps/a.cc", begin + a + end},
         {"ps/x/b.cc", begin + b + end}}));
  };
  EXPECT_EQ(
      Only(check("constexpr size_t kGap = 2;", "constexpr std::string_view kGap = \" \";", "l")),
      "kGap is in ps/a.cc, too");
  EXPECT_EQ(
      Only(check("struct Row {\n  int a;\n};", "class Row final {\n};", "l")),
      "Row is in ps/a.cc, too");
  EXPECT_EQ(
      Only(check("int F(int a, T<X, Y> b) {\n}", "int F(int c,\n      T<X, Y> d = {}) {\n}", "l")),
      "F is in ps/a.cc, too");
  EXPECT_THAT(check("int F(int a) {\n}", "int F(char a) {\n}", "l"), IsEmpty());
  EXPECT_THAT(check("using A = B;", "using A = B;", "l"), IsEmpty());
  EXPECT_THAT(check("int F(int a);", "int F(int a);", "l"), IsEmpty());
  EXPECT_THAT(check("constexpr int kA = 1;", "constexpr int kB = kA;", "l"), IsEmpty());
  EXPECT_THAT(check("constexpr int kA = 1;", "constexpr int kA = 1;", "kernels_cpu"), IsEmpty());
}

TEST(ReadmeRuleTest, AMissingOrOverlongReadmeIsFound) {
  EXPECT_FALSE(CheckReadmes({}).empty());
  std::string long_text;
  for (int i = 0; i < 100; ++i) {
    long_text += "x\n";
  }
  const auto findings = CheckReadmes({{"ps/base/README.md", long_text}});
  EXPECT_EQ(findings.front().message, "longer than a page");
}

TEST(FolderRuleTest, AFolderHasFortyFilesAtMost) {
  Tree tree;
  for (int i = 0; i < 40; ++i) {
    tree.push_back({"ps/net/file" + std::to_string(i) + ".cc", ""});
    tree.push_back({"ps/net/internal/file" + std::to_string(i) + ".cc", ""});
  }
  EXPECT_THAT(CheckFolders(tree), IsEmpty());
  tree.push_back({"ps/net/one_more.h", ""});
  EXPECT_EQ(Only(CheckFolders(tree)), "41 files; at most 40");
}

TEST(TopLevelRuleTest, ANewSourceFolderIsFound) {
  EXPECT_EQ(CheckTopLevel({{"utils/a.h", ""}}).size(), 1U);
  EXPECT_THAT(CheckTopLevel({{"CMakeLists.txt", ""}, {"ps/base/a.h", ""}}), IsEmpty());
}

TEST(LoadTreeTest, AFolderThatIsNoCheckoutIsRefused) {
  const Result<Tree> tree = LoadTree("/proc/self/fdinfo");
  ASSERT_FALSE(tree.ok());
  EXPECT_EQ(tree.status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace ps::tidy
