#include "worker/data/set_cache.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "ps/base/file.h"
#include "ps/base/unique_fd.h"
#include "tests/base/png_bytes.h"
#include "tests/worker/data/data_files.h"
#include "worker/data/dataset.h"
#include "worker/data/npy/npy_file.h"

namespace ps::worker::test {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

/// Folders and files below one, without those that are locks.
std::vector<std::string> FilesBelow(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file() && entry.path().filename() != "lock") {
      names.push_back(entry.path().filename().string());
    }
  }
  std::ranges::sort(names);
  return names;
}

class SetCacheTest : public testing::Test {
 protected:
  Result<std::string> Find(
      const CacheKey& key,
      const std::string& made,
      milliseconds patience = std::chrono::seconds(30)) {
    return FindOrMake(
        cache_.path(),
        key,
        &progress_,
        [&](const std::string& folder) {
          ++made_;
          return WriteFileAtomically(folder + "/a", made);
        },
        patience);
  }

  std::string Slot() const {
    for (const auto& entry : fs::directory_iterator(cache_.path())) {
      return entry.path().string();
    }
    return "";
  }

  TemporaryFolder cache_;
  LoadProgress progress_;
  std::atomic<int> made_ = 0;
};

TEST_F(SetCacheTest, WhatWasMadeIsFoundUntilTheFilesChange) {
  const DataFolder data;
  const std::string file = data.Write("a.txt", BytesOf("one"));
  const CacheKey before = KeyOf("letters", {file}).value();
  const std::string folder = Find(before, "1").value();
  EXPECT_EQ(Find(KeyOf("letters", {file}).value(), "2").value(), folder);
  EXPECT_EQ(*ReadFile(folder + "/a"), "1");
  EXPECT_EQ(made_, 1);
  data.Write("a.txt", BytesOf("three"));
  const std::string other = Find(KeyOf("letters", {file}).value(), "3").value();
  EXPECT_EQ(*ReadFile(other + "/a"), "3");
  EXPECT_FALSE(fs::exists(folder)) << "of a state that is no more";
  EXPECT_NE(Find(KeyOf("words", {file}).value(), "4").value(), other);
  EXPECT_TRUE(fs::exists(other)) << "of something else";
  EXPECT_EQ(KeyOf("letters", {data / "b.txt"}).status().code(), StatusCode::kIo);
}

TEST_F(SetCacheTest, WhatFailedLeavesNothing) {
  const auto fail = [](const std::string& folder) -> Status {
    PS_TRY(WriteFileAtomically(folder + "/a", "half"));
    return Status::Corruption("line 3");
  };
  const CacheKey key{"letters", "a 1\n"};
  EXPECT_EQ(
      FindOrMake(cache_.path(), key, &progress_, fail).status().code(), StatusCode::kCorruption);
  EXPECT_THAT(FilesBelow(cache_.path()), ElementsAre());
  EXPECT_EQ(*ReadFile(Find(key, "whole").value() + "/a"), "whole");
}

TEST_F(SetCacheTest, AFolderThatSomebodyElseFilledIsNotTaken) {
  const CacheKey key{"letters", "a 1\n"};
  const std::string folder = Find(key, "1").value();
  ASSERT_TRUE(WriteFileAtomically(folder + "/key", "other letters\na 1\n").ok());
  EXPECT_EQ(*ReadFile(Find(key, "2").value() + "/a"), "2");
}

TEST_F(SetCacheTest, ACacheThatCanNotBeUsedIsToldApart) {
  ASSERT_TRUE(WriteFileAtomically(cache_ / "file", "no folder").ok());
  const auto make = [](const std::string& /*folder*/) { return Status::Ok(); };
  const Status status = FindOrMake(cache_ / "file", {"letters", "a"}, &progress_, make).status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("can't be used"));
}

TEST_F(SetCacheTest, TwoAtATimeMakeItOnce) {
  const CacheKey key{"letters", "a 1\n"};
  std::promise<void> begun;
  std::promise<void> end;
  std::thread first([&] {
    const auto make = [&](const std::string& folder) {
      begun.set_value();
      end.get_future().wait();
      ++made_;
      return WriteFileAtomically(folder + "/a", "first");
    };
    LoadProgress progress;
    EXPECT_TRUE(FindOrMake(cache_.path(), key, &progress, make).ok());
  });
  begun.get_future().wait();
  auto second = std::async(std::launch::async, [&] { return Find(key, "second"); });
  // It waits, or has made its own by then.
  EXPECT_EQ(second.wait_for(milliseconds(300)), std::future_status::timeout);
  end.set_value();
  first.join();
  EXPECT_EQ(*ReadFile(second.get().value() + "/a"), "first");
  EXPECT_EQ(made_, 1);
}

TEST_F(SetCacheTest, OneThatStandsStillIsNotWaitedFor) {
  const CacheKey key{"letters", "a 1\n"};
  ASSERT_TRUE(Find({"letters", "a 0\n"}, "old").ok());
  const UniqueFd held(::open((Slot() + "/lock").c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(::flock(held.get(), LOCK_EX), 0);
  EXPECT_EQ(*ReadFile(Find(key, "mine", milliseconds(200)).value() + "/a"), "mine");
}

TEST_F(SetCacheTest, OneThatReadsForLongBeforeItWritesIsWaitedFor) {
  constexpr milliseconds kPatience = std::chrono::seconds(4);
  const CacheKey key{"letters", "a 1\n"};
  std::promise<void> begun;
  auto first = std::async(std::launch::async, [&] {
    LoadProgress progress;
    const auto make = [&](const std::string& folder) -> Status {
      begun.set_value();
      std::promise<void> never;
      const auto end = never.get_future();
      for (int i = 0; i < 50; ++i) {
        PS_TRY(progress.Advance(1));
        end.wait_for(milliseconds(100));
      }
      return WriteFileAtomically(folder + "/a", "first");
    };
    return FindOrMake(cache_.path(), key, &progress, make);
  });
  begun.get_future().wait();
  EXPECT_EQ(*ReadFile(Find(key, "second", kPatience).value() + "/a"), "first");
  EXPECT_EQ(made_, 0);
  EXPECT_TRUE(first.get().ok());
}

TEST_F(SetCacheTest, WhatIsNotOursStaysAndWhatIsOldGoes) {
  const CacheKey key{"letters", "a 1\n"};
  const std::string folder = Find(key, "1").value();
  const auto make_old = [&](const std::string& name, const std::string& file) {
    fs::create_directories(cache_ / name);
    const std::string path = cache_ / (name + "/" + file);
    EXPECT_TRUE(WriteFileAtomically(path, "").ok());
    const auto then = fs::file_time_type::clock::now() - std::chrono::hours(24 * 31);
    fs::last_write_time(path, then);
    fs::last_write_time(cache_ / name, then);
  };
  make_old("project", "lock");           // somebody's
  make_old("0123456789abcdef", "lock");  // of data that nobody trains on any more
  const std::string own = fs::path(folder).parent_path().filename().string();
  make_old(own + "/draft-1-0", "tokens.npy");             // of a process that was killed
  fs::create_directories(cache_ / (own + "/draft-2-0"));  // of one that goes on
  EXPECT_EQ(Find(key, "2").value(), folder);
  EXPECT_TRUE(fs::exists(cache_ / "project/lock"));
  EXPECT_FALSE(fs::exists(cache_ / "0123456789abcdef"));
  EXPECT_FALSE(fs::exists(cache_ / (own + "/draft-1-0")));
  EXPECT_TRUE(fs::exists(cache_ / (own + "/draft-2-0")));
}

TEST_F(SetCacheTest, WhoeverWaitsCanBeCancelled) {
  ASSERT_TRUE(Find({"letters", "a 0\n"}, "old").ok());
  const UniqueFd held(::open((Slot() + "/lock").c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(::flock(held.get(), LOCK_EX), 0);
  progress_.Cancel();
  EXPECT_EQ(Find({"letters", "a 1\n"}, "mine").status().code(), StatusCode::kCancelled);
  EXPECT_EQ(made_, 1);
}

TEST_F(SetCacheTest, WhereItIsFollowsFromTheJob) {
  proto::DataConfig config;
  config.cache = "/scratch";
  EXPECT_EQ(CacheOf(config, 1), "/scratch");
  config.cache = "off";
  EXPECT_EQ(CacheOf(config, uint64_t{1} << 40), std::nullopt);
  config.cache = "";
  EXPECT_EQ(CacheOf(config, 1), std::nullopt) << "small files are read as quickly";
}

/// A set of some format, with and without a cache.
class CachedDataTest : public testing::Test {
 protected:
  CachedDataTest() {
    config_.directory = folder_.path();
    config_.test_share = 0.4F;
  }

  Dataset Load(const std::string& cache, proto::Task task = proto::Task::kClasses) {
    config_.cache = cache;
    Result<Dataset> dataset = Dataset::Load(config_, nullptr, task);
    PS_CHECK(dataset.ok()) << dataset.status();
    return std::move(dataset).value();
  }

  /// All inputs and labels, training first.
  static std::vector<uint32_t> SamplesOf(const Dataset& data) {
    std::vector<uint32_t> all;
    const DatasetInfo& info = data.info();
    for (const bool is_train : {true, false}) {
      const uint64_t count = is_train ? info.train_count : info.test_count + info.validation_count;
      std::vector<float> inputs(count * static_cast<uint64_t>(info.shape.element_count()));
      std::vector<uint32_t> labels(count * static_cast<uint64_t>(info.labels));
      const Status fetched =
          is_train ? data.FetchTrain(EpochOrder(1, 0, count), {0, count}, {inputs, labels})
                   : data.FetchTest({0, count}, {inputs, labels});
      PS_CHECK(fetched.ok()) << fetched;
      for (const float input : inputs) {
        all.push_back(std::bit_cast<uint32_t>(input));
      }
      all.insert(all.end(), labels.begin(), labels.end());
    }
    return all;
  }

  /// Loads without a cache, into an empty one, and from that.
  void ExpectAlike(proto::Task task = proto::Task::kClasses) {
    const Dataset plain = Load("off", task);
    for (int i = 0; i < 2; ++i) {
      const Dataset cached = Load(cache_.path(), task);
      EXPECT_EQ(cached.info(), plain.info());
      EXPECT_EQ(cached.fingerprint(), plain.fingerprint());
      EXPECT_EQ(SamplesOf(cached), SamplesOf(plain));
      EXPECT_TRUE(std::ranges::equal(cached.target_means(), plain.target_means()));
      EXPECT_EQ(cached.note(), "");
      EXPECT_TRUE(cached.CheckAll().ok());
    }
    EXPECT_EQ(*Dataset::Inspect(config_, task), plain.info());
  }

  DataFolder folder_;
  TemporaryFolder cache_;
  proto::DataConfig config_;
};

TEST_F(CachedDataTest, TokensAreTheSame) {
  config_.format = proto::DatasetFormat::kText;
  config_.tokenizer = "tests/data/bpe";
  config_.context = 8;
  folder_.Write("a.txt", BytesOf("the first text, of some words and 12 numbers\n\nand lines"));
  folder_.WritePacked("b.txt.gz", BytesOf("another one, packed, which has words of its own too"));
  folder_.Write("c.txt", {});
  folder_.Write("README.txt", BytesOf("no data"));
  ExpectAlike();
  EXPECT_THAT(FilesBelow(cache_.path()), ElementsAre("key", "tokens.npy"));
  config_.mask = 0.3F;
  ExpectAlike();
  config_.context = 4;
  ExpectAlike();
  EXPECT_THAT(FilesBelow(cache_.path()), ElementsAre("key", "tokens.npy")) << "the same tokens";
}

TEST_F(CachedDataTest, UnpackedTextsAreTheSame) {
  config_.format = proto::DatasetFormat::kText;
  config_.context = 4;
  folder_.Write("a.txt", BytesOf("a text that is not packed"));
  folder_.WritePacked("b.txt.gz", BytesOf("and one that is"));
  ExpectAlike();
  config_.vocabulary = 128;
  ExpectAlike();
}

TEST_F(CachedDataTest, TablesAreTheSame) {
  config_.format = proto::DatasetFormat::kCsv;
  folder_.Write("train.csv", BytesOf("x,y,kind\n1,2,cat\n3,4,dog\n5,6,\"a, b\"\n7,8,dog\n"));
  folder_.Write("test.csv", BytesOf("x,y,kind\n0.5,-2e3,dog\n"));
  ExpectAlike();
  EXPECT_THAT(
      FilesBelow(cache_.path()),
      ElementsAre(
          "classes.json",
          "key",
          "test-labels.npy",
          "test-values.npy",
          "train-labels.npy",
          "train-values.npy"));
  config_.train_samples = 3;
  ExpectAlike();
  folder_.Write("train.csv", BytesOf("x,y,kind\n1,2,cat\n3,4,owl\n5,6,dog\n7,8,dog\n"));
  ExpectAlike();
  config_.label = "y";
  folder_.Write("train.csv", BytesOf("x,y\n1,2.5\n3,4\n5,6\n7,8\n"));
  folder_.Write("test.csv", BytesOf("x,y\n1,2.25\n"));
  ExpectAlike(proto::Task::kNumbers);
}

TEST_F(CachedDataTest, PicturesAreTheSame) {
  config_.format = proto::DatasetFormat::kPictures;
  config_.picture.channels = 1;
  const auto write = [&](const std::string& name, char grey) {
    const std::string path = folder_ / name;
    fs::create_directories(fs::path(path).parent_path());
    const std::string png = PngOf(2, 2, std::string(4, grey));
    folder_.Write(name, BytesOf(png));
  };
  for (const std::string which : {"train", "test"}) {
    write(which + "/a/0.png", 10);
    write(which + "/b/0.png", 20);
  }
  write("train/a/1.png", 30);
  ExpectAlike();
  EXPECT_THAT(
      FilesBelow(cache_.path()),
      ElementsAre("key", "test-pixels.npy", "test-sums.npy", "train-pixels.npy", "train-sums.npy"));
  config_.train_samples = 2;
  ExpectAlike();
  write("train/b/0.png", 40);
  ExpectAlike();
}

TEST_F(CachedDataTest, APartForValidationIsKeptWithTheRest) {
  config_.validation = "val";
  config_.format = proto::DatasetFormat::kCsv;
  for (const std::string name : {"train", "test", "val"}) {
    folder_.Write(name + ".csv", BytesOf("x,kind\n1,cat\n2,dog\n3,dog\n"));
  }
  ExpectAlike();
  EXPECT_THAT(FilesBelow(cache_.path()), Contains("validation-values.npy"));
  config_.validation.clear();
  ExpectAlike();
  EXPECT_THAT(FilesBelow(cache_.path()), Contains("validation-values.npy")) << "both are kept";
  config_.validation = "val";
  folder_.Write("val.csv", BytesOf("x,kind\n1,cat\n"));
  ExpectAlike();
}

TEST_F(CachedDataTest, AndSoIsOneOfPicturesAndOfTexts) {
  config_.validation = "val";
  config_.format = proto::DatasetFormat::kPictures;
  for (const std::string which : {"train", "test", "val"}) {
    for (const std::string name : {"a", "b"}) {
      fs::create_directories(folder_ / (which + "/" + name));
      folder_.Write(
          which + "/" + name + "/0.png", BytesOf(PngOf(2, 2, (which + name + which).substr(0, 4))));
    }
  }
  config_.picture = {.height = 2, .width = 2, .channels = 1};
  ExpectAlike();
  config_.validation.clear();
  ExpectAlike();
  config_.validation = "val";
  config_.format = proto::DatasetFormat::kText;
  config_.tokenizer = "tests/data/bpe";
  config_.context = 4;
  folder_.Write("a.txt", BytesOf("the first text, of some words and 12 numbers"));
  folder_.Write("val/a.txt", BytesOf("another one, which has words of its own"));
  ExpectAlike();
  config_.validation.clear();
  ExpectAlike();
}

TEST_F(CachedDataTest, WhatIsDamagedIsMadeAgain) {
  config_.format = proto::DatasetFormat::kCsv;
  folder_.Write("train.csv", BytesOf("x,kind\n1,cat\n3,dog\n"));
  folder_.Write("test.csv", BytesOf("x,kind\n1,cat\n"));
  const std::vector<uint32_t> samples = SamplesOf(Load("off"));
  Load(cache_.path());
  for (const auto& entry : fs::recursive_directory_iterator(cache_.path())) {
    const std::string path = entry.path().string();
    if (!entry.is_regular_file() || path.ends_with("lock") || path.ends_with("key")) {
      continue;
    }
    const std::string whole = *ReadFile(path);
    for (const size_t size : {size_t{0}, whole.size() / 2, whole.size() - 1}) {
      std::ofstream(path, std::ios::binary) << whole.substr(0, size);
      EXPECT_EQ(SamplesOf(Load(cache_.path())), samples) << path << " of " << size;
    }
    if (path.find("labels") != std::string::npos) {
      std::string wrong = whole;
      wrong[wrong.size() - 4] = 9;  // a class that there is not
      std::ofstream(path, std::ios::binary) << wrong;
      EXPECT_EQ(SamplesOf(Load(cache_.path())), samples) << path;
    }
  }
}

TEST_F(CachedDataTest, ATokenThatTheCacheHasWrongIsFoundWhenItIsRead) {
  config_.format = proto::DatasetFormat::kText;
  config_.tokenizer = "tests/data/bpe";
  config_.context = 4;
  folder_.Write("a.txt", BytesOf("the first text, of some words and 12 numbers\n\nand lines"));
  Load(cache_.path());
  for (const auto& entry : fs::recursive_directory_iterator(cache_.path())) {
    if (entry.path().filename() == "tokens.npy") {
      std::fstream file(entry.path(), std::ios::binary | std::ios::in | std::ios::out);
      file.seekp(128);
      file.write("\xff\xff\xff\xff", 4);
    }
  }
  const Dataset data = Load(cache_.path());
  const Status status = data.CheckAll();
  EXPECT_EQ(status.code(), StatusCode::kCorruption);
  EXPECT_THAT(std::string(status.message()), HasSubstr("tokens.npy: byte 128: token "));
}

TEST_F(CachedDataTest, WhereTheDiskIsFullNothingIsLeftAndDataIsInMemory) {
  config_.format = proto::DatasetFormat::kCsv;
  folder_.Write("train.csv", BytesOf("x,kind\n1,cat\n3,dog\n"));
  folder_.Write("test.csv", BytesOf("x,kind\n1,cat\n"));
  const std::vector<uint32_t> samples = SamplesOf(Load("off"));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  auto* const usual = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{130, before.rlim_max};  // room for a header, and for no elements
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const Result<Dataset> data = [&] {
    config_.cache = cache_.path();
    return Dataset::Load(config_);
  }();
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, usual);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(SamplesOf(*data), samples);
  EXPECT_THAT(data->note(), HasSubstr("File too large"));
  EXPECT_THAT(FilesBelow(cache_.path()), ElementsAre());
}

TEST_F(CachedDataTest, WithoutACacheThatCanBeUsedTheyAreInMemoryAndItIsSaid) {
  config_.format = proto::DatasetFormat::kText;
  config_.tokenizer = "tests/data/bpe";
  config_.context = 4;
  folder_.Write("a.txt", BytesOf("the first text, of some words and 12 numbers\n\nand lines"));
  ASSERT_TRUE(WriteFileAtomically(cache_ / "file", "").ok());
  const Dataset data = Load(cache_ / "file");
  EXPECT_EQ(SamplesOf(data), SamplesOf(Load("off")));
  EXPECT_THAT(data.note(), HasSubstr("in memory: the cache "));
  config_.tokenizer.clear();
  config_.validation = "val";
  const std::string plain = folder_.Write("val.txt", BytesOf("a text to measure epochs on"));
  EXPECT_EQ(Load(cache_ / "file").note(), "") << "plain texts are taken as they are";
  fs::remove(plain);
  folder_.WritePacked("val.txt.gz", BytesOf("a text that epochs are measured on"));
  EXPECT_THAT(Load(cache_ / "file").note(), HasSubstr("in memory: the cache "))
      << "the one for validation has to be unpacked";
  config_.tokenizer = "tests/data/bpe";
  config_.validation.clear();
  folder_.Write("a.txt", BytesOf("no \xff UTF-8"));
  config_.cache = cache_.path();
  EXPECT_EQ(Dataset::Load(config_).status().code(), StatusCode::kCorruption);
}

}  // namespace
}  // namespace ps::worker::test
