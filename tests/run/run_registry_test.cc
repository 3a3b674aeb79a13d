#include "run/directory/run_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "run/directory/head_file.h"
#include "tests/base/temporary_folder.h"
#include "tests/run/dates.h"

namespace ps::run {
namespace {

using ::testing::HasSubstr;

class RunRegistryTest : public ::testing::Test {
 protected:
  RunRegistry registry() const { return RunRegistry(root_ / "links", {root_ / "runs"}); }

  RunDirectory Start(const std::string& name, const std::string& parent = "elsewhere") const {
    auto run = RunDirectory::Create(root_.path() + "/" + parent, name, kNoonMicros);
    EXPECT_TRUE(run.ok()) << run.status();
    return std::move(run).value();
  }

  size_t LinkCount() const {
    return static_cast<size_t>(
        std::distance(std::filesystem::directory_iterator(root_ / "links"), {}));
  }

  std::string ResolveError(const std::string& name) const {
    const auto run = registry().Resolve(name);
    return run.ok() ? "" : std::string(run.status().message());
  }

  TemporaryFolder root_;
};

TEST_F(RunRegistryTest, FindsWhatWasAddedUntilItIsRemoved) {
  const RunDirectory run = Start("mnist");
  ASSERT_TRUE(registry().Add(run.paths()).ok());
  ASSERT_EQ(registry().Find().size(), 1U);
  EXPECT_EQ(registry().Find()[0].name, "mnist");
  EXPECT_EQ(registry().Find()[0].paths.root, run.paths().root);
  registry().Remove(run.paths());
  EXPECT_TRUE(registry().Find().empty());
}

/// Nobody holds its lock here: a sweep or a prune that did not know of it would cost what it made.
TEST_F(RunRegistryTest, ARunOnARentedMachineIsKnownFromEveryFolderUntilTheMachineIsGivenBack) {
  RunPaths paths;
  {
    const RunDirectory run = Start("mnist");
    paths = run.paths();
    ASSERT_TRUE(WriteHeadFile(paths, {}).ok());
    ASSERT_TRUE(registry().Add(paths).ok());
  }
  EXPECT_TRUE(registry().Find().empty());
  ASSERT_EQ(registry().All().size(), 1U);
  EXPECT_EQ(registry().All()[0].root, paths.root);
  HeadFile head;
  head.is_given_back = true;
  ASSERT_TRUE(WriteHeadFile(paths, head).ok());
  EXPECT_TRUE(registry().All().empty());
  EXPECT_EQ(LinkCount(), 0U);
}

TEST_F(RunRegistryTest, TheDirectoryIsForTheOwnerAlone) {
  const RunDirectory run = Start("mnist");
  ASSERT_TRUE(registry().Add(run.paths()).ok());

  struct stat info {};

  ASSERT_EQ(::stat((root_ / "links").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700U);
}

TEST_F(RunRegistryTest, ADirectoryThatOthersMayWriteToIsNotUsed) {
  const RunDirectory run = Start("mnist");
  ASSERT_TRUE(registry().Add(run.paths()).ok());
  ASSERT_EQ(::chmod((root_ / "links").c_str(), 0777), 0);
  EXPECT_EQ(registry().Add(run.paths()).code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(registry().Find().empty());
}

TEST_F(RunRegistryTest, ALinkInPlaceOfTheDirectoryIsNotFollowed) {
  const RunDirectory run = Start("mnist");
  std::filesystem::create_directory(root_ / "other");
  std::filesystem::create_symlink(root_ / "other", root_ / "links");
  EXPECT_EQ(registry().Add(run.paths()).code(), StatusCode::kInvalidArgument);
}

TEST_F(RunRegistryTest, ARunWhoseProcessIsGoneIsSkippedAndItsLinkRemoved) {
  const RunDirectory alive = Start("alive");
  ASSERT_TRUE(registry().Add(alive.paths()).ok());
  {
    const RunDirectory gone = Start("gone");
    ASSERT_TRUE(registry().Add(gone.paths()).ok());
    EXPECT_EQ(registry().Find().size(), 2U);
  }
  std::filesystem::create_symlink(root_ / "nowhere", root_ / "links/dangling");
  ASSERT_EQ(registry().Find().size(), 1U);
  EXPECT_EQ(registry().Find()[0].name, "alive");
  EXPECT_EQ(LinkCount(), 1U);
}

TEST_F(RunRegistryTest, RunsInTheScannedDirectoryNeedNoLink) {
  const RunDirectory here = Start("here", "runs");
  ASSERT_TRUE(registry().Add(here.paths()).ok());
  const RunDirectory also_here = Start("also_here", "runs");
  EXPECT_EQ(registry().Find().size(), 2U);
}

TEST_F(RunRegistryTest, TwoRunsOfOneNameInTwoPlacesAreBothFound) {
  const RunDirectory a = Start("mnist", "a");
  const RunDirectory b = Start("mnist", "b");
  ASSERT_TRUE(registry().Add(a.paths()).ok());
  ASSERT_TRUE(registry().Add(b.paths()).ok());
  EXPECT_EQ(registry().Find().size(), 2U);
  EXPECT_THAT(ResolveError("mnist"), HasSubstr("several runs of 'mnist'"));
}

TEST_F(RunRegistryTest, ANameMeansAJobARunOrADirectory) {
  const RunDirectory run = Start("mnist", "runs");
  for (const std::string& name :
       {std::string("mnist"),
        std::string("mnist-20240131-120000"),
        run.paths().root,
        run.paths().root + "/"}) {
    const auto found = registry().Resolve(name);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->root, run.paths().root);
  }
}

TEST_F(RunRegistryTest, ARunThatEndedIsFoundByItsDirectory) {
  std::string path;
  { path = Start("mnist", "runs").paths().root; }
  EXPECT_TRUE(registry().Resolve(path).ok());
  EXPECT_TRUE(registry().Resolve("mnist-20240131-120000").ok());
  EXPECT_FALSE(registry().Resolve("mnist").ok());
}

TEST_F(RunRegistryTest, AnUnknownNameComesWithTheNearest) {
  EXPECT_THAT(ResolveError("mnits"), HasSubstr("none is running"));
  const RunDirectory run = Start("mnist", "runs");
  EXPECT_THAT(ResolveError("mnits"), HasSubstr("did you mean 'mnist'?"));
  EXPECT_THAT(ResolveError("other"), HasSubstr("running: mnist-20240131-120000"));
}

}  // namespace
}  // namespace ps::run
