#include "psctl/runs/checkpoint_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/model/kept_tensors.h"
#include "checkpoint/model/safetensors.h"
#include "checkpoint/reader.h"
#include "checkpoint/shard_store.h"
#include "checkpoint/storage/rocksdb_storage.h"
#include "run/directory/model_card.h"
#include "run/directory/model_export.h"
#include "tests/checkpoint/workload.h"
#include "tests/psctl/command_fixture.h"

namespace ps::psctl {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

/// Checkpoints 2 and 3 of three tensors in `path_`.
class CheckpointCommandTest : public CommandFixture {
 protected:
  void SetUp() override {
    CommandFixture::SetUp();
    path_ = root_ / "c";
    Status end;
    checkpoint::RunWorkload(*checkpoint::MakeRocksDbStorage(), path_, 3, &end);
    ASSERT_TRUE(end.ok()) << end;
  }

  std::string path_;
};

TEST_F(CheckpointCommandTest, ListHasARowForEach) {
  EXPECT_EQ(Run({"checkpoint", "list", path_}), run::kExitOk) << err_;
  EXPECT_THAT(out_, ContainsRegex("\n +2 .*\n +3 .* of 3\n$"));
  EXPECT_EQ(Run({"checkpoint", "list", path_, "--json"}), run::kExitOk);
  EXPECT_THAT(out_, HasSubstr("\"checkpoint\": 3"));
}

TEST_F(CheckpointCommandTest, NumbersDecideAndNotAClockThatWentBack) {
  const auto storage = checkpoint::MakeRocksDbStorage();
  const auto reader = checkpoint::Reader::Open(*storage, path_);
  ASSERT_TRUE(reader.ok()) << reader.status();
  const auto older = (*reader)->ReadManifest(2);
  const auto newer = (*reader)->ReadManifest(3);
  ASSERT_TRUE(older.ok() && newer.ok());
  ASSERT_LT(newer->unix_micros, older->unix_micros);
  EXPECT_THAT((*reader)->ids(), testing::ElementsAre(2, 3));
  EXPECT_EQ(Run({"checkpoint", "show", "newest", path_}), run::kExitOk) << err_;
  EXPECT_THAT(out_, ContainsRegex("checkpoint +3\n"));
  const std::string place = "file://" + root_ / "place";
  EXPECT_EQ(Run({"checkpoint", "copy", place, path_}), run::kExitOk) << err_;
  EXPECT_EQ(Run({"checkpoint", "show", "newest", place}), run::kExitOk) << err_;
  EXPECT_THAT(out_, ContainsRegex("checkpoint +3\n"));
  Status end;  // a run that goes on, with the clock still further back
  checkpoint::RunWorkload(*storage, path_, 1, &end);
  ASSERT_TRUE(end.ok()) << end;
  EXPECT_EQ(Run({"checkpoint", "prune", "--keep", "1", path_}), run::kExitOk) << err_;
  EXPECT_THAT(out_, HasSubstr("kept: 4\n"));
}

TEST_F(CheckpointCommandTest, ShowNamesTensorsAndShards) {
  EXPECT_EQ(Run({"checkpoint", "show", "newest", path_}), run::kExitOk) << err_;
  EXPECT_THAT(out_, ContainsRegex("checkpoint +3\n"));
  EXPECT_THAT(out_, ContainsRegex("tensor2 +6000 +6,000 +1\n"));
  EXPECT_THAT(out_, ContainsRegex("0  shard-0 "));
}

TEST_F(CheckpointCommandTest, VerifyNamesADamagedIndexAndFails) {
  for (const auto& entry : std::filesystem::directory_iterator(path_ + "/job")) {
    if (entry.path().extension() == ".log") {
      std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(20);  // in the first record of the log
      file.put('~');
    }
  }
  EXPECT_EQ(Run({"checkpoint", "verify", "--all", path_}), run::kExitFailed) << out_;
  for (const char* id : {"2", "3"}) {
    EXPECT_THAT(
        out_, ContainsRegex(std::string("checkpoint ") + id + ": index: .*/job is damaged"));
  }
  EXPECT_EQ(Run({"checkpoint", "prune", "--keep", "2", path_}), run::kExitOk) << err_;
  EXPECT_THAT(out_, HasSubstr("kept: 2, 3\n"));
  EXPECT_EQ(Run({"checkpoint", "verify", "--all", path_}), run::kExitOk) << out_;
}

TEST_F(CheckpointCommandTest, VerifyNamesWhatIsDamagedAndFails) {
  EXPECT_EQ(Run({"checkpoint", "verify", "--all", path_}), run::kExitOk) << err_;
  EXPECT_THAT(out_, HasSubstr("checkpoint 2: whole, 3 chunks"));
  EXPECT_THAT(out_, HasSubstr("checkpoint 3: whole, 3 chunks"));
  for (const auto& entry : std::filesystem::directory_iterator(path_ + "/shard-0")) {
    if (entry.path().extension() == ".blob") {
      std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(200);
      file.write("damage", 6);
    }
  }
  EXPECT_EQ(Run({"checkpoint", "verify", path_}), run::kExitFailed);
  EXPECT_THAT(out_, ContainsRegex("checkpoint 3: tensor[12].0:[36]000.: corruption: "));
  EXPECT_EQ(Run({"checkpoint", "verify", "--json", path_}), run::kExitFailed);
  EXPECT_THAT(out_, HasSubstr("\"is_whole\": false"));
}

TEST_F(CheckpointCommandTest, DiffSaysHowMuchChanged) {
  EXPECT_EQ(Run({"checkpoint", "diff", "2", "3", path_}), run::kExitOk) << err_;
  EXPECT_THAT(out_, ContainsRegex("tensor0 +200 +100.0 "));
  EXPECT_THAT(out_, ContainsRegex("tensor2 +6,000 +0.0 +0 +0\n"));
}

TEST_F(CheckpointCommandTest, ExportWritesAModel) {
  const std::string file = root_ / "model.safetensors";
  EXPECT_EQ(Run({"checkpoint", "export", "newest", file, path_}), run::kExitOk) << err_;
  const auto model = checkpoint::SafetensorsReader::Open(file);
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_EQ(model->header().tensors.size(), 3U);
  EXPECT_EQ(model->header().metadata.at("checkpoint"), "3");
  std::vector<float> values(200);
  ASSERT_TRUE(model->Read(model->header().tensors[0], 0, values).ok());
  EXPECT_EQ(values, checkpoint::WorkloadValues(0, 3));
  const auto bytes = std::filesystem::file_size(file);
  EXPECT_EQ(Run({"checkpoint", "export", "3", file, path_, "--half"}), run::kExitOk) << err_;
  EXPECT_LT(std::filesystem::file_size(file), bytes * 6 / 10);
}

TEST_F(CheckpointCommandTest, AnExportedModelSaysOfItselfWhatItsRunDoes) {
  const std::string file = root_ / "model.safetensors";
  EXPECT_EQ(Run({"checkpoint", "export", "newest", file, path_}), run::kExitOk);
  EXPECT_THAT(err_, HasSubstr(file + " will not say what its layers are"));
  ASSERT_TRUE(run::WriteModelCard(root_ / "model_card.json", {{"input", "\"a\", b"}}).ok());
  EXPECT_EQ(Run({"checkpoint", "export", "newest", file, path_}), run::kExitOk);
  EXPECT_EQ(err_, "");
  const auto model = checkpoint::SafetensorsReader::Open(file);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->header().metadata.at("input"), "\"a\", b");
  EXPECT_EQ(model->header().metadata.at("checkpoint"), "3");
}

TEST_F(CheckpointCommandTest, AModelHasWhatNobodyTrainsBehindWhatTheCheckpointHas) {
  const std::vector<float> values = {4.5F, 5.5F};
  const std::vector<TensorSpec> frozen = {{"frozen", {2}}};
  const std::string frozen_path = root_ / "described.frozen.safetensors";
  auto writer =
      checkpoint::SafetensorsWriter::Create(frozen_path, frozen, checkpoint::ElementType::kF32, {});
  ASSERT_TRUE(writer.ok() && writer->Write(0, 0, values).ok() && writer->Finish().ok());

  const std::string file = root_ / "model.safetensors";
  ASSERT_TRUE(run::ExportNewestModel(path_, {.path = file, .frozen_path = frozen_path}).ok());
  const auto model = checkpoint::SafetensorsReader::Open(file);
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_EQ(model->header().tensors.size(), 4U);
  const checkpoint::StoredTensor* const last = model->header().Find("frozen");
  ASSERT_NE(last, nullptr);
  std::vector<float> read(2);
  ASSERT_TRUE(model->Read(*last, 0, read).ok());
  EXPECT_EQ(read, values);

  // A run that has lost them says so rather than leave a model that is not whole.
  std::filesystem::remove(frozen_path);
  EXPECT_THAT(
      run::ExportNewestModel(path_, {.path = file, .frozen_path = frozen_path}).status().message(),
      HasSubstr(frozen_path));
}

TEST_F(CheckpointCommandTest, AModelOfHalfTheBitsHasConstantsAsTheyAreAndAllNames) {
  using checkpoint::ElementType;
  const std::string file = root_ / "model.safetensors";
  const auto plain = run::ExportNewestModel(path_, {.path = file});
  ASSERT_TRUE(plain.ok()) << plain.status();
  const TensorSpec& first = plain->tensors.front();
  const std::string kept_path = root_ / "described.frozen.safetensors";
  const std::vector<float> base = {4.5F, 5.5F};
  const std::vector<float> mask = {-std::numeric_limits<float>::infinity()};
  auto writer = checkpoint::SafetensorsWriter::Create(
      kept_path,
      {checkpoint::StoredTensor{"base", ElementType::kF32, {2}, 2},
       checkpoint::StoredTensor{"mask", ElementType::kF32, {1}, 1}},
      {checkpoint::PrintKept(
          {.as_is = {"mask"}, .counters = {}, .aliases = {{"again", first.name}}})});
  ASSERT_TRUE(writer.ok() && writer->Write(0, 0, base).ok());
  ASSERT_TRUE(writer->WriteBytes(1, 0, std::as_bytes(std::span(mask))).ok());
  ASSERT_TRUE(writer->Finish().ok());
  const auto half =
      run::ExportNewestModel(path_, {.path = file, .is_half = true, .frozen_path = kept_path});
  ASSERT_TRUE(half.ok()) << half.status();
  const auto model = checkpoint::SafetensorsReader::Open(file);
  ASSERT_TRUE(model.ok()) << model.status();
  const auto& header = model->header();
  ASSERT_EQ(header.tensors.size(), plain->tensors.size() + 3);
  EXPECT_EQ(header.Find("base")->type, ElementType::kF16);
  EXPECT_EQ(header.Find("mask")->type, ElementType::kF32);
  std::vector<float> read(1);
  ASSERT_TRUE(
      model->ReadBytes(*header.Find("mask"), 0, std::as_writable_bytes(std::span(read))).ok());
  EXPECT_EQ(read, mask);
  std::vector<float> values(static_cast<size_t>(first.element_count()));
  std::vector<float> again(values.size());
  ASSERT_TRUE(model->Read(*header.Find(first.name), 0, values).ok());
  ASSERT_TRUE(model->Read(*header.Find("again"), 0, again).ok());
  EXPECT_EQ(values, again);
}

TEST_F(CheckpointCommandTest, TheNewestModelThatCanBeReadIsExported) {
  const std::string file = root_ / "model.safetensors";
  const auto newest = run::ExportNewestModel(path_, {.path = file});
  ASSERT_TRUE(newest.ok()) << newest.status();
  EXPECT_EQ(newest->id, 3U);

  std::filesystem::remove(file);
  const auto storage = checkpoint::MakeRocksDbStorage();
  auto store =
      checkpoint::ShardStore::Open(*storage, path_, ShardId(0), checkpoint::OpenMode::kWrite);
  ASSERT_TRUE(store.ok()) << store.status();
  ASSERT_TRUE((*store)->ForgetAbove(2).ok());
  store->reset();
  const auto older = run::ExportNewestModel(path_, {.path = file});
  ASSERT_TRUE(older.ok()) << older.status();
  EXPECT_EQ(older->id, 2U);
  EXPECT_EQ(checkpoint::SafetensorsReader::Open(file)->header().metadata.at("checkpoint"), "2");

  EXPECT_EQ(
      run::ExportNewestModel(root_ / "none", {.path = file}).status().code(),
      StatusCode::kNotFound);
}

TEST_F(CheckpointCommandTest, CopyAndPrune) {
  const std::string target = root_ / "copy";
  EXPECT_EQ(Run({"checkpoint", "copy", target, path_}), run::kExitOk) << err_;
  EXPECT_THAT(out_, HasSubstr("copied: 2, 3, "));
  EXPECT_EQ(Run({"checkpoint", "prune", "--keep", "1", target}), run::kExitOk) << err_;
  EXPECT_EQ(out_, "removed: 2\nkept: 3\n");
  EXPECT_EQ(Run({"checkpoint", "verify", "--all", target}), run::kExitOk) << out_;
  EXPECT_EQ(Run({"checkpoint", "list", path_}), run::kExitOk);
  EXPECT_THAT(out_, ContainsRegex("\n +2 ")) << "the source is left alone";
}

TEST_F(CheckpointCommandTest, CopiesElsewhereAreLookedAtAndFetched) {
  const std::string place = "file://" + root_ / "place";
  EXPECT_EQ(Run({"checkpoint", "copy", place, path_}), run::kExitOk) << err_;
  EXPECT_THAT(out_, HasSubstr("copied: 2, 3, "));
  EXPECT_EQ(Run({"checkpoint", "copy", place, path_}), run::kExitOk) << err_;
  EXPECT_EQ(out_, "copied: none, 0 B sent, 0 B shared\nthere already: 2, 3\n");
  EXPECT_EQ(Run({"checkpoint", "list", place}), run::kExitOk) << err_;
  EXPECT_THAT(out_, ContainsRegex("\n +2 .*\n +3 .* of 3\n$"));
  EXPECT_EQ(Run({"checkpoint", "show", "newest", root_ / "place"}), run::kExitOk) << err_;
  EXPECT_THAT(out_, ContainsRegex("checkpoint +3\n"));
  EXPECT_EQ(Run({"checkpoint", "verify", "--all", place}), run::kExitOk) << err_;
  EXPECT_THAT(out_, HasSubstr("checkpoint 2: whole, 3 chunks"));
  EXPECT_EQ(Run({"checkpoint", "prune", "--keep", "1", place}), run::kExitOk) << err_;
  EXPECT_EQ(out_, "removed: 2\nkept: 3\n");

  EXPECT_EQ(Run({"checkpoint", "copy", root_ / "fetched", place}), run::kExitOk) << err_;
  EXPECT_THAT(err_, HasSubstr("fetched checkpoint 3 from " + root_ / "place to "));
  EXPECT_EQ(Run({"checkpoint", "verify", root_ / "fetched"}), run::kExitOk) << out_;
}

TEST_F(CheckpointCommandTest, MistakesAboutCopiesSayWhatToDo) {
  const std::string place = "file://" + root_ / "place";
  EXPECT_EQ(Run({"checkpoint", "list", place}), run::kExitOk);
  EXPECT_THAT(err_, HasSubstr("/place has no checkpoint"));
  EXPECT_EQ(Run({"checkpoint", "verify", place}), run::kExitFailed);
  EXPECT_THAT(err_, HasSubstr("/place has no checkpoint"));
  EXPECT_EQ(Run({"checkpoint", "copy", place, path_}), run::kExitOk);
  EXPECT_EQ(Run({"checkpoint", "show", "9", place}), run::kExitFailed);
  EXPECT_THAT(err_, HasSubstr("there are: 2, 3"));
  EXPECT_EQ(Run({"checkpoint", "export", "3", root_ / "m", place}), run::kExitMisused);
  EXPECT_THAT(err_, HasSubstr("psctl checkpoint copy DIR " + place + " fetches it"));
  EXPECT_EQ(Run({"checkpoint", "copy", path_, place}), run::kExitFailed);
  EXPECT_THAT(err_, HasSubstr("has checkpoints already, the newest is 3"));
  EXPECT_EQ(Run({"checkpoint", "copy", "s3://Bucket/x", path_}), run::kExitMisused);
  EXPECT_THAT(err_, HasSubstr("\"Bucket\" is no name of a bucket"));
}

TEST_F(CheckpointCommandTest, ARunIsAPathToo) {
  const std::string run = root_ / "runs/job-20260101-000000";
  std::filesystem::create_directories(run);
  std::ofstream(run + "/job.json") << "{}";
  std::ofstream(run + "/psctl.pid") << "1";
  std::filesystem::rename(path_, run + "/checkpoints");
  EXPECT_EQ(Run({"checkpoint", "list", run}), run::kExitOk) << err_;
  EXPECT_THAT(out_, ContainsRegex("\n +3 "));
}

TEST_F(CheckpointCommandTest, MistakesSayWhatToDo) {
  EXPECT_EQ(Run({"checkpoint", "show", "9", path_}), run::kExitFailed);
  EXPECT_THAT(err_, HasSubstr("there are: 2, 3"));
  EXPECT_EQ(Run({"checkpoint", "show", "last", path_}), run::kExitMisused);
  EXPECT_THAT(err_, HasSubstr("a number or 'newest', not 'last'"));
  EXPECT_EQ(Run({"checkpoint", "diff", "2", path_}), run::kExitMisused);
  EXPECT_EQ(Run({"checkpoint", "list"}), run::kExitFailed);
  EXPECT_THAT(err_, HasSubstr("name a run or a checkpoint path"));
  EXPECT_EQ(Run({"checkpoint", "prune", path_}), run::kExitMisused);
  EXPECT_THAT(err_, HasSubstr("--keep"));
  EXPECT_EQ(Run({"checkpoint", "copy", path_, path_}), run::kExitFailed);
  EXPECT_THAT(err_, HasSubstr("are the same"));
}

}  // namespace
}  // namespace ps::psctl
