// The rules of the house, run over the repository itself. ctest runs this in the root.

#include <vector>

#include "gtest/gtest.h"
#include "tests/tidy/rules.h"
#include "tests/tidy/tree.h"

namespace ps::tidy {
namespace {

class RepositoryTest : public ::testing::Test {
 protected:
  static const Tree& Repository() {
    static const Result<Tree> tree = LoadTree(".");
    return tree.value();
  }

  static void ExpectNone(const std::vector<Finding>& findings) {
    EXPECT_TRUE(findings.empty()) << Print(findings);
  }
};

TEST_F(RepositoryTest, IncludesObeyTheFolderTable) {
  ExpectNone(CheckIncludes(Repository()));
}

TEST_F(RepositoryTest, LinkListsObeyTheFolderTable) {
  ExpectNone(CheckLinks(Repository()));
}

TEST_F(RepositoryTest, ServersAndWorkersLinkNothingOfThePlanner) {
  ExpectNone(CheckPrograms(Repository()));
}

TEST_F(RepositoryTest, LinesAndFilesFitTheirLimits) {
  ExpectNone(CheckShape(Repository()));
}

TEST_F(RepositoryTest, DocumentsAreWrappedAndUndated) {
  ExpectNone(CheckDocumentShape(Repository()));
}

TEST_F(RepositoryTest, LinksBetweenDocumentsLeadSomewhere) {
  ExpectNone(CheckDocumentLinks(Repository()));
}

TEST_F(RepositoryTest, FilesThatDocumentsNameExist) {
  ExpectNone(CheckNamedFiles(Repository()));
}

TEST_F(RepositoryTest, TestsThatDocumentsNameExist) {
  ExpectNone(CheckNamedTests(Repository()));
}

TEST_F(RepositoryTest, BannedNamesAreNotUsed) {
  ExpectNone(CheckBannedNames(Repository()));
}

TEST_F(RepositoryTest, ProgramsBeginWithTheirStandardStreams) {
  ExpectNone(CheckMains(Repository()));
}

TEST_F(RepositoryTest, NoMarksForLaterWork) {
  ExpectNone(CheckMarks(Repository()));
}

TEST_F(RepositoryTest, HeadersAreGuardedAndComeFirst) {
  ExpectNone(CheckHeaders(Repository()));
}

TEST_F(RepositoryTest, EverySourceIsBuiltAndEveryTestIsRun) {
  ExpectNone(CheckSourcesAreBuilt(Repository()));
}

TEST_F(RepositoryTest, NamesDoNotMeetWhereSourcesAreJoined) {
  ExpectNone(CheckNamesOfJoinedSources(Repository()));
}

TEST_F(RepositoryTest, EveryFolderHasAReadme) {
  ExpectNone(CheckReadmes(Repository()));
}

TEST_F(RepositoryTest, TopLevelFoldersAreTheArchitectures) {
  ExpectNone(CheckTopLevel(Repository()));
}

TEST_F(RepositoryTest, NoFolderIsACrowd) {
  ExpectNone(CheckFolders(Repository()));
}

TEST_F(RepositoryTest, TheCheckerReadTheWholeTree) {
  EXPECT_NE(FindFile(Repository(), "ps/base/status.h"), nullptr);
  EXPECT_NE(FindFile(Repository(), "tests/tidy/tree.cc"), nullptr);
  EXPECT_NE(FindFile(Repository(), "scripts/setup.sh"), nullptr);
  EXPECT_NE(FindFile(Repository(), ".ci/run"), nullptr);
}

}  // namespace
}  // namespace ps::tidy
