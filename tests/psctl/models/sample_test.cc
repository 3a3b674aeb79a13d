#include <gmock/gmock.h>

#include <cmath>
#include <string>

#include "tests/psctl/models/model_fixture.h"
#include "worker/use/text_sampler.h"

namespace ps::psctl {
namespace {

using testing::HasSubstr;

class SampleTest : public ModelFixture {
 protected:
  int Sample(const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"sample", root_ / "text.safetensors"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Run(arguments);
  }
};

TEST_F(SampleTest, ATextGoesOnBeyondTheContext) {
  WriteModel("text.safetensors", TextCard(), TextValues());
  ASSERT_EQ(Sample({"--prompt", "xyzab", "--tokens", "9", "--temperature", "0"}), 0) << err_;
  EXPECT_EQ(out_, "xyzabcdabcdabc\n");
  ASSERT_EQ(Sample({"--prompt", "b", "--tokens", "2", "--top-k", "1"}), 0) << err_;
  EXPECT_EQ(out_, "bcd\n");
}

TEST_F(SampleTest, OneSeedIsOneText) {
  std::vector<float> values = TextValues();
  for (float& value : values) {
    value /= 10;  // nothing is certain
  }
  WriteModel("text.safetensors", TextCard(), values);
  const std::vector<std::string> one = {"--prompt", "a", "--seed", "4", "--tokens", "50"};
  ASSERT_EQ(Sample(one), 0) << err_;
  const std::string text = out_;
  ASSERT_EQ(Sample(one), 0);
  EXPECT_EQ(out_, text);
  ASSERT_EQ(Sample({"--prompt", "a", "--seed", "5", "--tokens", "50"}), 0);
  EXPECT_NE(out_, text);
  EXPECT_EQ(text.find('\x1b'), std::string::npos) << "a terminal takes no commands of a model";
}

TEST_F(SampleTest, WhatCannotGoOnIsSaid) {
  WriteModel("text.safetensors", TextCard(), TextValues());
  EXPECT_EQ(Sample({"--prompt", ""}), 1);
  EXPECT_THAT(err_, HasSubstr("the prompt is empty"));
  EXPECT_EQ(Sample({"--prompt", "\xc3\xa4"}), 1);
  EXPECT_THAT(err_, HasSubstr("the prompt: byte 0: 195 is none of the 128"));
  EXPECT_EQ(Sample({"--prompt", "a", "--temperature", "-1"}), 2);
  EXPECT_EQ(Sample({"--prompt", "a", "--tokens", "0"}), 2);
  EXPECT_EQ(Sample({}), 2);

  worker::ModelCard both = TextCard();
  both.layers.insert(both.layers.begin() + 1, LayerOf(proto::LayerKind::kAttention));
  both.layers[1].heads = 1;
  WriteModel("text.safetensors", both);
  EXPECT_EQ(Sample({"--prompt", "a"}), 1);
  EXPECT_THAT(err_, HasSubstr("attention is not causal, so it saw each token"));
  both.data.mask = 0.15F;
  WriteModel("text.safetensors", both);
  EXPECT_EQ(Sample({"--prompt", "a"}), 1);
  EXPECT_THAT(err_, HasSubstr("from those on both sides"));
  WriteModel("text.safetensors", TableCard(), table_values_);
  EXPECT_EQ(Sample({"--prompt", "a"}), 1);
  EXPECT_THAT(err_, HasSubstr("psctl apply uses it"));
}

TEST_F(SampleTest, ATokenizerIsTheOneOfTheTraining) {
  worker::ModelCard card = TextCard();
  card.data.tokenizer = "tests/data/bpe";
  const auto digest = worker::DigestOfTokenizer(card.data.tokenizer);
  ASSERT_TRUE(digest.ok()) << digest.status();
  card.input.vocabulary = digest->tokens;
  card.data.vocabulary = digest->tokens;
  card.classes = digest->tokens;
  card.layers[1].out = static_cast<int32_t>(digest->tokens);
  card.tokens = digest->tokens;
  card.vocabulary_sha256 = digest->vocabulary;
  card.merges_sha256 = digest->merges;
  WriteModel("text.safetensors", card);
  EXPECT_EQ(Sample({"--prompt", "The ", "--tokens", "3"}), 0) << err_;
  EXPECT_THAT(out_, testing::StartsWith("The "));
  card.merges_sha256 = std::string(64, '0');
  WriteModel("text.safetensors", card);
  EXPECT_EQ(Sample({"--prompt", "The "}), 1);
  EXPECT_THAT(err_, HasSubstr("another tokenizer than the one that the model has learnt by"));
}

TEST(ChooseTokenTest, ShareOfEachFollowsItsProbability) {
  const std::vector<float> outputs = {0, std::log(2.0F), -100, 0};  // 1/4, 1/2, 0, 1/4
  std::vector<int> counts(4);
  Random random(3);
  for (int i = 0; i < 4000; ++i) {
    ++counts[worker::ChooseToken(outputs, {}, &random)];
  }
  EXPECT_NEAR(counts[0], 1000, 120);
  EXPECT_NEAR(counts[1], 2000, 120);
  EXPECT_EQ(counts[2], 0);
  EXPECT_NEAR(counts[3], 1000, 120);
  counts.assign(4, 0);
  for (int i = 0; i < 1000; ++i) {
    ++counts[worker::ChooseToken(outputs, {.top_k = 2}, &random)];
  }
  EXPECT_EQ(counts[3], 0) << "of equal ones the first is among the two";
  EXPECT_EQ(worker::ChooseToken(outputs, {.temperature = 0}, &random), 1U);
}

}  // namespace
}  // namespace ps::psctl
