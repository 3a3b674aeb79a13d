// Data out of a bucket, against the server of tests/store with all its troubles.

#include "worker/data/store/stored_data.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ps/base/crc32c.h"
#include "ps/base/file.h"
#include "ps/base/unique_fd.h"
#include "tests/base/png_bytes.h"
#include "tests/store/s3_under_test.h"
#include "tests/worker/data/data_files.h"
#include "worker/data/dataset.h"
#include "worker/data/store/stored_names.h"

namespace ps::worker::test {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using store::TestServer;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;
using testing::UnorderedElementsAre;

constexpr size_t kRangeBytes = 1000;

/// Names of files below a folder, with their folders.
std::vector<std::string> NamesBelow(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) {
      names.push_back(fs::relative(entry.path(), folder).string());
    }
  }
  std::ranges::sort(names);
  return names;
}

/// Different in each range of a file.
std::string Rows(size_t bytes, int seed = 0) {
  std::string rows = "x,y,label\n";
  for (size_t i = 0; rows.size() < bytes; ++i) {
    rows += std::to_string(i + static_cast<size_t>(seed)) + "," + std::to_string(i * i % 97) + "," +
            std::to_string(i % 3) + "\n";
  }
  return rows;
}

class StoredDataTest : public testing::Test {
 protected:
  StoredDataTest() {
    config_.format = proto::DatasetFormat::kCsv;
    config_.cache = cache_.path();
    options_.range_bytes = kRangeBytes;
    options_.connections = 3;
    options_.attempts_max = 4;
    options_.first_wait = milliseconds(1);
    options_.longest_wait = milliseconds(2);
    for (const auto& [name, value] : TestServer().KeyVariables()) {
      variables_[name] = value;
    }
  }

  void SetUp() override {
    if (TestServer().port() == 0) {
      GTEST_SKIP() << "no server: " << TestServer().why() << "; is python3 installed?";
    }
    Use("good");
  }

  static std::string Prefix() {
    return testing::UnitTest::GetInstance()->current_test_info()->name();
  }

  void Use(const std::string& bucket) {
    bucket_ = bucket;
    config_.directory = TestServer().PlaceOf(bucket, Prefix());
  }

  void Put(const std::string& name, const std::string& bytes) {
    const Status put = TestServer().Put(bucket_, Prefix() + "/" + name, bytes);
    ASSERT_TRUE(put.ok()) << put;
  }

  Environment Variables() const {
    return [variables = variables_](const std::string& name) -> std::optional<std::string> {
      const auto it = variables.find(name);
      return it == variables.end() ? std::nullopt : std::optional(it->second);
    };
  }

  Result<FetchedData> BringData(StoredState state) {
    return DataHere(config_, &progress_, state, Variables(), options_);
  }

  Result<std::string> Bring() {
    PS_ASSIGN(const FetchedData data, BringData(StoredState::kNow));
    return data.config.directory;
  }

  std::string BringingError() {
    const Status status = Bring().status();
    EXPECT_FALSE(status.ok());
    return std::string(status.message());
  }

  /// GETs of objects, not of lists.
  int Gets(const std::string& name = "") const {
    return TestServer().RequestsWith("GET /" + bucket_ + "/" + Prefix() + "/" + name);
  }

  std::string bucket_;
  std::map<std::string, std::string> variables_;
  TemporaryFolder cache_;
  proto::DataConfig config_;
  FetchOptions options_;
  LoadProgress progress_;
};

TEST_F(StoredDataTest, AFolderStaysWhereItIs) {
  config_.directory = "/srv/data";
  EXPECT_EQ(Bring().value(), "/srv/data");
  EXPECT_THAT(NamesBelow(cache_.path()), IsEmpty());
}

TEST_F(StoredDataTest, FilesAreThoseOfTheBucketAndFetchedOnce) {
  const std::string large = Rows(10'500);
  Put("train.csv", large);
  Put("test.csv", Rows(kRangeBytes));
  Put("empty.csv", "");
  Put("README.md", "no data");
  Put("old/train.csv", "of another year");
  Put(".hidden.csv", "of an editor");
  const std::string folder = Bring().value();
  EXPECT_THAT(NamesBelow(folder), ElementsAre("empty.csv", "test.csv", "train.csv"));
  EXPECT_EQ(*ReadFile(folder + "/train.csv"), large);
  EXPECT_EQ(*ReadFile(folder + "/test.csv"), Rows(kRangeBytes));
  EXPECT_EQ(Gets("train.csv"), 11);
  EXPECT_EQ(progress_.done(), large.size() + Rows(kRangeBytes).size());
  EXPECT_EQ(progress_.share(), 1);
  EXPECT_EQ(Bring().value(), folder);
  EXPECT_EQ(Gets("train.csv"), 11) << "it is there";
}

TEST_F(StoredDataTest, WhatChangedIsFetchedAndTheOldGoes) {
  Put("train.csv", Rows(2'500));
  const std::string before = Bring().value();
  Put("train.csv", Rows(2'500, 7));
  const std::string after = Bring().value();
  EXPECT_NE(after, before);
  EXPECT_EQ(*ReadFile(after + "/train.csv"), Rows(2'500, 7));
  EXPECT_TRUE(fs::exists(before)) << "somebody may be reading it";
  fs::last_write_time(
      fs::path(before).parent_path(), fs::file_time_type::clock::now() - std::chrono::hours(25));
  ASSERT_TRUE(Bring().ok());
  EXPECT_FALSE(fs::exists(before));
}

TEST_F(StoredDataTest, TheFingerprintIsThatOfAFolderWithTheSameFiles) {
  const DataFolder folder;
  for (const std::string name : {"train.csv", "test.csv"}) {
    const std::string rows = Rows(5'000, name == "train.csv" ? 0 : 9);
    folder.Write(name, BytesOf(rows));
    Put(name, rows);
  }
  proto::DataConfig local = config_;
  local.directory = folder.path();
  proto::DataConfig fetched = config_;
  fetched.directory = Bring().value();
  EXPECT_EQ(Dataset::Load(fetched)->fingerprint(), Dataset::Load(local)->fingerprint());
}

TEST_F(StoredDataTest, SoIsThatOfPicturesInFolders) {
  config_.format = proto::DatasetFormat::kPictures;
  config_.picture.width = 2;
  config_.picture.height = 2;
  const DataFolder folder;
  for (int i = 0; i < 9; ++i) {
    const std::string png = PngOf(2, 2, std::string(4, static_cast<char>(10 * i)));
    const std::string name = std::string(i < 6 ? "train/" : "val/") +
                             (i % 2 == 0 ? "a cat/" : "dog/deep/") + std::to_string(i) + ".PNG";
    fs::create_directories((fs::path(folder.path()) / name).parent_path());
    folder.Write(name, BytesOf(png));
    Put(name, png);
  }
  Put("train/notes.txt", "no picture");
  proto::DataConfig local = config_;
  local.directory = folder.path();
  proto::DataConfig fetched = config_;
  fetched.directory = Bring().value();
  const auto data = Dataset::Load(fetched);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->info().train_count, 6U);
  EXPECT_EQ(data->fingerprint(), Dataset::Load(local)->fingerprint());
  local.validation = "val";
  fetched.validation = "val";
  EXPECT_EQ(Dataset::Load(fetched)->info().validation_count, 3U);
  EXPECT_EQ(Dataset::Load(fetched)->fingerprint(), Dataset::Load(local)->fingerprint());
}

TEST_F(StoredDataTest, TextsForValidationAreFetchedFromTheirFolder) {
  config_.format = proto::DatasetFormat::kText;
  config_.context = 4;
  Put("a.txt", Rows(200));
  Put("val/b.txt", "a text of its own");
  Put("val/deep/c.txt", "no data");
  Put("old/d.txt", "no data");
  EXPECT_THAT(NamesBelow(Bring().value()), ElementsAre("a.txt"));
  config_.validation = "val";
  const std::string folder = Bring().value();
  EXPECT_THAT(NamesBelow(folder), UnorderedElementsAre("a.txt", "val/b.txt"));
  proto::DataConfig fetched = config_;
  fetched.directory = folder;
  EXPECT_EQ(Dataset::Load(fetched)->info().validation_count, 4U);
}

TEST_F(StoredDataTest, ATokenizerMayComeFromThereToo) {
  const DataFolder texts;
  config_.format = proto::DatasetFormat::kText;
  config_.directory = texts.path();
  config_.tokenizer = TestServer().PlaceOf("good", Prefix());
  EXPECT_THAT(
      BringingError(),
      AllOf(StartsWith("data.tokenizer: nothing below"), HasSubstr("files of the kind tokenizer")));
  Put("vocab.json", "{}");
  Put("merges.txt", "#");
  Put("tokenizer.json", "not asked for");
  const FetchedData data = BringData(StoredState::kNow).value();
  EXPECT_EQ(data.config.directory, texts.path());
  EXPECT_THAT(NamesBelow(data.config.tokenizer), ElementsAre("merges.txt", "vocab.json"));
}

TEST_F(StoredDataTest, ProcessesOfAMachineFetchOnce) {
  Use("slow");
  Put("train.csv", Rows(4'500));
  std::vector<std::future<Result<std::string>>> all;
  for (int i = 0; i < 6; ++i) {
    all.push_back(std::async(std::launch::async, [this] { return Bring(); }));
  }
  for (auto& one : all) {
    const Result<std::string> folder = one.get();
    ASSERT_TRUE(folder.ok()) << folder.status();
    EXPECT_EQ(*ReadFile(*folder + "/train.csv"), Rows(4'500));
  }
  EXPECT_EQ(Gets(), 5);
}

TEST_F(StoredDataTest, WhatIsLostOnTheWayIsAskedForAgain) {
  for (const std::string bucket : {"busy", "truncating", "dropping", "flipping"}) {
    Use(bucket);
    Put("train.csv", Rows(4'500));
    const Result<std::string> folder = Bring();
    ASSERT_TRUE(folder.ok()) << bucket << ": " << folder.status();
    EXPECT_EQ(*ReadFile(*folder + "/train.csv"), Rows(4'500)) << bucket;
    EXPECT_GE(Gets(), 10) << bucket;
    EXPECT_EQ(progress_.trouble(), "") << "it is over";
  }
}

TEST_F(StoredDataTest, ATagThatIsNoMd5IsNoDamage) {
  Use("tagged");
  Put("train.csv", Rows(2'500));
  Put("test.csv", Rows(2'500));
  const std::string folder = Bring().value();
  EXPECT_EQ(*ReadFile(folder + "/train.csv"), Rows(2'500));
  EXPECT_LE(Gets(), 12) << "at most each twice";
}

TEST_F(StoredDataTest, TroubleIsToldWhileItLasts) {
  Use("failing");
  options_.first_wait = std::chrono::seconds(10);
  options_.longest_wait = std::chrono::seconds(10);
  std::future<Result<std::string>> brought =
      std::async(std::launch::async, [this] { return Bring(); });
  while (progress_.trouble().empty()) {
    std::this_thread::yield();
  }
  EXPECT_THAT(progress_.trouble(), AllOf(HasSubstr("HTTP 500"), HasSubstr("it is tried again")));
  progress_.Cancel();
  EXPECT_EQ(brought.get().status().code(), StatusCode::kCancelled) << "without the ten seconds";
}

TEST_F(StoredDataTest, AFetchThatWasEndedGoesOn) {
  Use("slow");
  Put("train.csv", Rows(20'000));
  std::future<Result<std::string>> brought =
      std::async(std::launch::async, [this] { return Bring(); });
  while (progress_.done() < 5 * kRangeBytes) {
    std::this_thread::yield();
  }
  progress_.Cancel();
  EXPECT_EQ(brought.get().status().code(), StatusCode::kCancelled);
  const int before = Gets();
  EXPECT_LT(before, 20);
  LoadProgress other;
  const auto here = DataHere(config_, &other, StoredState::kNow, Variables(), options_);
  ASSERT_TRUE(here.ok()) << here.status();
  EXPECT_EQ(*ReadFile(here->config.directory + "/train.csv"), Rows(20'000));
  EXPECT_LE(Gets(), 21 + options_.connections) << "what was on its way comes twice";
  EXPECT_EQ(other.done(), Rows(20'000).size());
}

TEST_F(StoredDataTest, WhatTheDiskHasLostIsFetchedAgain) {
  Put("train.csv", Rows(4'500));
  Put("z.csv", Rows(10));
  // As a process leaves it that is killed before the last object.
  Use("good");
  const std::string folder = Bring().value();
  const fs::path slot = fs::path(folder).parent_path().parent_path();
  const std::string key = *ReadFile(fs::path(folder).parent_path().string() + "/key");
  const std::string state = key.substr(key.find('\n') + 1);
  const fs::path parts = slot / "draft-objects";
  fs::create_directories(parts / "files");
  fs::copy(fs::path(folder), parts / "files", fs::copy_options::recursive);
  std::string journal = state + "\n";
  const std::string bytes = Rows(4'500);
  for (size_t at = 0; at < bytes.size(); at += kRangeBytes) {
    const std::string part = bytes.substr(at, kRangeBytes);
    journal += "0 " + std::to_string(at) + " " + std::to_string(part.size()) + " " +
               std::to_string(Crc32c(std::as_bytes(std::span(part)))) + "\n";
  }
  journal += "1 0 1";  // cut off
  ASSERT_TRUE(WriteFileAtomically((parts / "journal").string(), journal).ok());
  {
    std::fstream file(parts / "files" / "train.csv", std::ios::in | std::ios::out);
    file.seekp(2'345);
    file.put('#');
  }
  fs::remove_all(fs::path(folder).parent_path());
  const int before = Gets("train.csv");
  const std::string again = Bring().value();
  EXPECT_EQ(*ReadFile(again + "/train.csv"), bytes);
  EXPECT_EQ(*ReadFile(again + "/z.csv"), Rows(10));
  EXPECT_EQ(Gets("train.csv") - before, 1) << "of five ranges";
  EXPECT_THAT(NamesBelow(again), ElementsAre("train.csv", "z.csv"));
  EXPECT_FALSE(fs::exists(parts));
}

TEST_F(StoredDataTest, WhoCanNotGoOnFromAnothersPartsBeginsItsOwn) {
  Put("train.csv", Rows(4'500));
  const fs::path slot = fs::path(Bring().value()).parent_path().parent_path();
  const UniqueFd other(::open((slot / "objects-lock").c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(::flock(other.get(), LOCK_EX | LOCK_NB), 0) << "it stands still";
  fs::create_directories(slot / "draft-objects" / "files");
  Put("train.csv", Rows(4'500, 3));
  const std::string folder = Bring().value();
  EXPECT_EQ(*ReadFile(folder + "/train.csv"), Rows(4'500, 3));
  EXPECT_TRUE(fs::exists(slot / "draft-objects")) << "it may go on";
}

TEST_F(StoredDataTest, WhatChangesMeanwhileIsAnErrorThatNamesIt) {
  Use("changing");
  Put("train.csv", Rows(4'500));
  const std::string error = BringingError();
  EXPECT_THAT(error, StartsWith("data.directory: train.csv was changed while its data were"));
  EXPECT_THAT(error, HasSubstr("begin again when nobody writes there"));
  for (const std::string& name : NamesBelow(cache_.path())) {
    EXPECT_THAT(name, Not(HasSubstr("key"))) << "nothing counts as fetched";
  }
}

TEST_F(StoredDataTest, AWorkerWithoutKeysOrStoreHasWhatItsMachineHas) {
  // As where the environment says where the store is, and workers do not see that.
  const std::string query = config_.directory.substr(config_.directory.find('?') + 1);
  const std::string endpoint =
      query.substr(query.find("endpoint=") + std::string("endpoint=").size());
  variables_["AWS_ENDPOINT_URL"] = endpoint.substr(0, endpoint.find('&'));
  variables_["AWS_REGION"] = query.substr(query.find("region=") + std::string("region=").size());
  config_.directory = "s3://good/" + Prefix();
  Put("train.csv", Rows(2'500));
  const std::string folder = Bring().value();
  variables_["AWS_ACCESS_KEY_ID"] = "half";
  variables_.erase("AWS_SECRET_ACCESS_KEY");
  EXPECT_FALSE(Bring().ok()) << "who reads first is to know";
  const FetchedData without_keys = BringData(StoredState::kAsCached).value();
  EXPECT_EQ(without_keys.config.directory, folder);
  EXPECT_THAT(without_keys.note, HasSubstr("as they were: AWS_ACCESS_KEY_ID is set and"));
  for (const auto& [name, value] : TestServer().KeyVariables()) {
    variables_[name] = value;
  }
  EXPECT_EQ(BringData(StoredState::kAsCached)->note, "");
  variables_["AWS_ENDPOINT_URL"] = "http://127.0.0.1:1";
  options_.attempts_max = 1;
  EXPECT_FALSE(Bring().ok());
  EXPECT_EQ(BringData(StoredState::kAsCached)->config.directory, folder);
  EXPECT_EQ(BringData(StoredState::kCachedFirst)->config.directory, folder);
  config_.directory = "s3://good/other";
  EXPECT_FALSE(BringData(StoredState::kAsCached).ok()) << "it has nothing of that";
  config_.directory = "s3://good/" + Prefix() + "?endpoint=http://127.0.0.1:1";
  EXPECT_FALSE(BringData(StoredState::kAsCached).ok()) << "nor of another store's";
}

/// psctl's machine may have others for workers than psctl has, or a region or an endpoint.
TEST_F(StoredDataTest, AWorkerWhoseKeysAreRefusedHasWhatItsMachineHas) {
  Put("train.csv", Rows(2'500));
  const std::string folder = Bring().value();
  variables_["AWS_ACCESS_KEY_ID"] = "WRONG";
  EXPECT_FALSE(Bring().ok());
  const FetchedData data = BringData(StoredState::kAsCached).value();
  EXPECT_EQ(data.config.directory, folder);
  EXPECT_THAT(data.note, HasSubstr("workers don't see the variables AWS_*"));
}

/// A coordinator goes on with a run while others wait for it.
TEST_F(StoredDataTest, WhoGoesOnTakesWhatIsThereWithoutAskingAndKeepsIt) {
  Put("train.csv", Rows(2'500));
  const std::string before = Bring().value();
  Put("train.csv", Rows(2'600));
  EXPECT_EQ(BringData(StoredState::kCachedFirst)->config.directory, before);
  const std::string after = Bring().value();
  EXPECT_NE(after, before);
  EXPECT_TRUE(std::filesystem::exists(before + "/train.csv")) << "somebody may read it";
}

TEST_F(StoredDataTest, NamesThatAreNoFilesAreErrors) {
  config_.format = proto::DatasetFormat::kPictures;
  Put("train/../../../escape.png", "x");
  EXPECT_THAT(
      BringingError(),
      AllOf(HasSubstr("\"train/../../../escape.png\" can be no file"), HasSubstr("rename it")));
  EXPECT_THAT(NamesBelow(cache_.path()), IsEmpty());
}

TEST(StoredNamesTest, WhatCanNotBeAFileBesideTheOthersIsRefused) {
  const auto check = [](const std::vector<std::string>& names) {
    std::vector<store::StoredObject> objects;
    for (const std::string& name : names) {
      objects.push_back({.name = name});
    }
    return CheckNames(objects).ok();
  };
  EXPECT_TRUE(check({"a", "a.b/c", "b c/\xc3\xa9"}));
  for (const std::string bad :
       {"", "/a", "a/", "a//b", "..", "a/../b", "./a", "a/.", "a\nb", "a\x7f", "a\tb"}) {
    EXPECT_FALSE(check({bad})) << bad;
  }
  EXPECT_FALSE(check({std::string("a\0b", 3)}));
  EXPECT_TRUE(check({std::string(255, 'a')}));
  EXPECT_FALSE(check({std::string(256, 'a')}));
  EXPECT_FALSE(check({"a", "a.b", "a/b"})) << "a file and a folder";
  EXPECT_FALSE(check({"a", "a"}));
}

TEST_F(StoredDataTest, ErrorsSayWhatToDo) {
  EXPECT_THAT(BringingError(), HasSubstr("is called like files of the kind csv"));
  config_.cache = "off";
  EXPECT_THAT(BringingError(), HasSubstr("give data.cache a folder"));
  config_.cache = cache_.path();
  Use("denying");
  EXPECT_THAT(BringingError(), HasSubstr("it needs s3:ListBucket and s3:GetObject"));
  Use("no-such-bucket");
  EXPECT_THAT(BringingError(), HasSubstr("there is no bucket no-such-bucket"));
  Use("moved");
  EXPECT_THAT(BringingError(), HasSubstr("is in region us-west-9"));
  Use("good");
  config_.directory = "s3://Bad_Name/x";
  EXPECT_THAT(BringingError(), StartsWith("data.directory: s3://Bad_Name/x: "));
  Use("good");
  config_.cache = "/proc/no-folder";
  Put("train.csv", Rows(100));
  EXPECT_THAT(BringingError(), HasSubstr("the cache /proc/no-folder can't be used"));
  config_.cache = cache_.path();
  variables_ = {{"AWS_ACCESS_KEY_ID", "half"}};
  EXPECT_THAT(
      BringingError(), HasSubstr("AWS_ACCESS_KEY_ID is set and AWS_SECRET_ACCESS_KEY is not"));
}

/// A limit on the size of files does what a full disk does, without the signal.
TEST_F(StoredDataTest, ADiskThatIsFullIsAnErrorAndNothingCounts) {
  Put("train.csv", Rows(20'500));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 8'000;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const Status status = Bring().status();
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(status.code(), StatusCode::kIo);
  EXPECT_THAT(
      std::string(status.message()),
      AllOf(StartsWith("data.directory: cannot write"), HasSubstr("train.csv")));
  EXPECT_EQ(*ReadFile(Bring().value() + "/train.csv"), Rows(20'500));
}

}  // namespace
}  // namespace ps::worker::test
