#include <gmock/gmock.h>

#include <filesystem>
#include <string>

#include "ps/base/file.h"
#include "ps/proto/job/job_config.h"
#include "tests/psctl/command_fixture.h"
#include "tests/psctl/golden.h"

namespace ps::psctl {
namespace {

using testing::HasSubstr;
using testing::Not;

/// `psctl model` of a job whose dataset is in the fixture's folder.
class ModelCommandTest : public CommandFixture {
 protected:
  void SetUp() override {
    CommandFixture::SetUp();
    std::filesystem::create_directory(root_ / "data");
  }

  void WriteData(const std::string& name, const std::string& bytes) {
    ASSERT_TRUE(WriteFileAtomically(root_ / "data/" + name, bytes).ok());
  }

  /// A record of CIFAR-10 in each file.
  void WritePictures() {
    const std::string record(1 + 3 * 32 * 32, '\x01');
    for (int i = 1; i <= 5; ++i) {
      WriteData("data_batch_" + std::to_string(i) + ".bin", record);
    }
    WriteData("test_batch.bin", record);
  }

  int RunModel(const std::string& fields, const std::vector<std::string>& more = {}) {
    const std::string job =
        R"({"name": "a", "data": {"directory": ")" + (root_ / "data") + R"(", )" + fields + "}";
    EXPECT_TRUE(WriteFileAtomically(root_ / "job.json", job).ok());
    std::vector<std::string> arguments = {"model", root_ / "job.json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Run(arguments);
  }
};

TEST_F(ModelCommandTest, AGptOnTheCpu) {
  WriteData("a.txt", std::string(2000, 'x'));
  ASSERT_EQ(
      RunModel(R"("format": "text", "context": 32, "vocabulary": 128},
                  "model": {"name": "gpt", "depth": 2, "heads": 2, "width": 32},
                  "train": {"minibatch": 8}, "workers": [{"count": 2}])"),
      0)
      << err_;
  EXPECT_EQ(out_, Golden("model_gpt.txt"));
}

TEST_F(ModelCommandTest, AResNetInBf16OnTwoDevices) {
  WritePictures();
  ASSERT_EQ(
      RunModel(R"("format": "cifar10"},
                  "model": {"name": "resnet20"},
                  "train": {"minibatch": 64, "micro_batch": 16, "precision": "bf16",
                            "gradient_dtype": "bf16"},
                  "workers": [{"device": "cuda:0,1"}])"),
      0)
      << err_;
  EXPECT_EQ(out_, Golden("model_resnet20.txt"));
}

TEST_F(ModelCommandTest, EachKindOfWorkerIsToldOnce) {
  WritePictures();
  const std::string job = R"("format": "cifar10"}, "model": {"name": "mlp"},
      "optimizer": {"clip_norm": 1},
      "workers": [{"count": 2, "minibatch": 10}, {"minibatch": 10, "type": "x"}, {"minibatch": 5,
                   "device": "auto"}])";
  ASSERT_EQ(RunModel(job), 0) << err_;
  const auto count = [&](const std::string& text) {
    size_t found = 0;
    for (size_t at = out_.find(text); at != std::string::npos; at = out_.find(text, at + 1)) {
      ++found;
    }
    return found;
  };
  EXPECT_EQ(count("at 10 samples"), 1U) << out_;
  EXPECT_EQ(count("at 5 samples"), 2U) << "on the CPU, or on a device";
  EXPECT_THAT(out_, HasSubstr("cuda, if there is one"));
  EXPECT_THAT(out_, Not(HasSubstr("in fewer bits")));
}

/// With the settings of their servers too: a model may be too large for the queue of one.
TEST_F(ModelCommandTest, EveryExampleFitsItsModel) {
  WritePictures();
  WriteData("a.txt", std::string(50000, 'x'));
  for (const char* const name : {"train.csv", "test.csv"}) {
    WriteData(name, "area,rooms,age,price\n0.5,1,-1,0.25\n");
  }
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("configs")) {
    const std::string path = entry.path().string();
    if (entry.path().extension() != ".json" || path.ends_with(".schema.json")) {
      continue;
    }
    std::vector<std::string> arguments = {"model", path};
    const auto config = proto::LoadJobConfig(path, {{"data.directory", root_ / "data"}});
    ASSERT_TRUE(config.ok()) << config.status();
    if (config->data.format != proto::DatasetFormat::kIdx) {
      arguments.insert(arguments.end(), {"--set", "data.directory=" + (root_ / "data")});
    }
    if (!config->data.tokenizer.empty()) {
      const std::string tokens = std::filesystem::absolute("tests/data/bpe");
      arguments.insert(arguments.end(), {"--set", "data.tokenizer=" + tokens});
    }
    EXPECT_EQ(Run(arguments), 0) << path << ": " << err_;
    ++count;
  }
  EXPECT_GE(count, 10U);
}

TEST_F(ModelCommandTest, WhatIsWrongIsSaidWithItsPlace) {
  EXPECT_EQ(RunModel(R"("format": "cifar10"}, "model": {"name": "mlp"}, "workers": [{}])"), 2);
  EXPECT_THAT(err_, HasSubstr("data_batch_1.bin"));
  WritePictures();
  EXPECT_EQ(
      RunModel(R"("format": "cifar10"}, "model": {"layers": [{"kind": "conv2d", "out": 4,
                  "kernel": 40}]}, "workers": [{}])"),
      2);
  EXPECT_THAT(err_, HasSubstr("kernel 40 does not fit"));
}

}  // namespace
}  // namespace ps::psctl
