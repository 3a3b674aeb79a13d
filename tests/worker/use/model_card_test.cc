#include "worker/use/model_card.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/worker/data/data_files.h"
#include "worker/model/zoo.h"
#include "worker/use/card_of_job.h"

namespace ps::worker {
namespace {

using testing::HasSubstr;

/// A card with something in each of its parts.
ModelCard FullCard() {
  proto::ModelConfig zoo;
  zoo.name = "resnet20";
  ModelCard card;
  card.input = {3, 32, 32};
  card.classes = 2;
  card.layers = ZooLayers(zoo, card.input, card.classes).value();
  card.data.format = proto::DatasetFormat::kCifar10;
  card.data.directory = "/data/\"cifar\"";
  card.data.pad = 0;
  card.class_names = {"caf\xc3\xa9, \"big\"", "tea"};
  card.normals = {{125.3, 63.01}, {1.0 / 3, 0.1}, {113.86538318634033, 66.70489964063091}};
  return card;
}

/// Two numbers that are learnt of a table.
ModelCard NumbersCard() {
  ModelCard card;
  card.layers.resize(2);
  card.layers[0].kind = proto::LayerKind::kLinear;
  card.layers[0].out = 2;
  card.layers[1].kind = proto::LayerKind::kHuber;
  card.layers[1].delta = 0.25F;
  card.input = {3, 1, 1};
  card.classes = 2;
  card.labels = 2;
  card.data.format = proto::DatasetFormat::kCsv;
  card.data.directory = "/data";
  card.data.labels = {"price", "days"};
  card.columns = {"a", "b", "c"};
  card.label_columns = {"price", "days"};
  card.target_means = {1.0 / 3, -125000};
  return card;
}

/// What CardIn says of a card with a text of its metadata in place of another.
std::string Said(
    const ModelCard& card, const std::string& key, const std::string& from, const std::string& to) {
  Metadata metadata = MetadataOf(card);
  std::string& text = metadata.at(key);
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  const auto read = CardIn(metadata);
  EXPECT_EQ(read.status().code(), StatusCode::kCorruption) << key << " " << to;
  EXPECT_THAT(read.status().message(), HasSubstr("metadata"));
  return std::string(read.status().message());
}

TEST(ModelCardTest, WhatIsWrittenIsReadBack) {
  const ModelCard card = FullCard();
  const auto read = CardIn(MetadataOf(card));
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_TRUE(read->has_value());
  EXPECT_EQ(**read, card);

  ModelCard table;
  table.layers = {card.layers.back()};
  table.input = {2, 1, 1};
  table.classes = 2;
  table.data.format = proto::DatasetFormat::kTsv;
  table.data.directory = "/data";
  table.data.label = "y";
  table.columns = {"a b", "c\td"};
  table.label_columns = {"y"};
  const auto again = CardIn(MetadataOf(table));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->value(), table);

  const ModelCard numbers = NumbersCard();
  const auto third = CardIn(MetadataOf(numbers));
  ASSERT_TRUE(third.ok()) << third.status();
  EXPECT_EQ(third->value(), numbers);
  EXPECT_EQ(third->value().task(), proto::Task::kNumbers);
}

TEST(ModelCardTest, AFileOfAnotherProgramSaysNothing) {
  const auto read = CardIn({{"format", "pt"}, {"model", "mine"}});
  ASSERT_TRUE(read.ok());
  EXPECT_FALSE(read->has_value());
}

TEST(ModelCardTest, WhatDoesNotFitIsRefusedByItsKey) {
  const auto said = [](const std::string& key, const std::string& from, const std::string& to) {
    return Said(FullCard(), key, from, to);
  };
  EXPECT_THAT(said("input", "\"image\"", "\"sound\""), HasSubstr("none of image"));
  EXPECT_THAT(said("input", "\"channels\":3", "\"channels\":-3"), HasSubstr("\"channels\""));
  EXPECT_THAT(said("input", "\"channels\":3", "\"channels\":4"), HasSubstr("4 channels"));
  EXPECT_THAT(said("input", "\"classes\":2", "\"classes\":3"), HasSubstr("2 class names of 3"));
  EXPECT_THAT(said("input", "63.01", "0"), HasSubstr("above 0"));
  EXPECT_THAT(said("input", "63.01", "1e999"), HasSubstr("\"deviation\""));
  EXPECT_THAT(said("input", ",\"tea\"", ",7"), HasSubstr("\"class_names\""));
  EXPECT_THAT(said("input", "{", ""), HasSubstr("\"input\""));
  EXPECT_THAT(
      said("model", "\"linear\",\"out\":2", "\"linear\",\"out\":7"), HasSubstr("the data has 2"));
  EXPECT_THAT(said("model", "conv2d", "conv9d"), HasSubstr("conv9d"));
  // A text stays within its place.
  EXPECT_THAT(said("model", "}]", "}]},\"run\":{\"port\":1"), HasSubstr("\"model\""));
  EXPECT_THAT(said("data", "\"cifar10\"", "\"png\""), HasSubstr("png"));

  Metadata none = MetadataOf(FullCard());
  none.erase("input");
  EXPECT_THAT(CardIn(none).status().message(), HasSubstr("\"input\": missing"));
  Metadata newer = MetadataOf(FullCard());
  newer["spotps_model"] = "2";
  EXPECT_EQ(CardIn(newer).status().code(), StatusCode::kUnsupported);
}

TEST(ModelCardTest, SizesByWhichNoSampleIsReadAreRefused) {
  ModelCard text;
  text.input = {1, 4, 1, ShapeKind::kTokens, 128};
  text.layers.resize(2);
  text.layers[0].kind = proto::LayerKind::kEmbedding;
  text.layers[0].out = 8;
  text.layers[1].kind = proto::LayerKind::kLinear;
  text.layers[1].out = 128;
  text.classes = 128;
  text.labels = 4;
  text.data.format = proto::DatasetFormat::kText;
  text.data.directory = "/data";
  ASSERT_TRUE(CardIn(MetadataOf(text)).ok()) << CardIn(MetadataOf(text)).status();
  EXPECT_THAT(
      Said(text, "input", "\"channels\":1", "\"channels\":9"), HasSubstr("1 for \"channels\""));
  EXPECT_THAT(Said(text, "input", "\"vocabulary\":128", "\"vocabulary\":0"), HasSubstr("above 0"));
  EXPECT_THAT(Said(text, "input", "\"tokens\"", "\"image\""), HasSubstr("\"kind\" is image"));
  EXPECT_THAT(
      Said(NumbersCard(), "input", "\"image\"", "\"tokens\""), HasSubstr("\"kind\" is tokens"));
  EXPECT_THAT(Said(NumbersCard(), "input", "\"image\"", "\"sequence\""), HasSubstr("is sequence"));
}

TEST(ModelCardTest, NumbersThatDoNotFitAreRefused) {
  const auto said = [](const std::string& key, const std::string& from, const std::string& to) {
    return Said(NumbersCard(), key, from, to);
  };
  EXPECT_THAT(said("input", "\"labels\":2", "\"labels\":3"), HasSubstr("\"labels\" is 3"));
  EXPECT_THAT(said("input", "\"classes\":2", "\"classes\":3"), HasSubstr("\"labels\" is 2"));
  EXPECT_THAT(said("input", "\"height\":1", "\"height\":2"), HasSubstr("rows of numbers"));
  EXPECT_THAT(
      said("input", "\"price\",\"days\"", "\"price\""), HasSubstr("1 \"label_columns\" of 2"));
  EXPECT_THAT(said("input", ",-125000", ""), HasSubstr("1 \"target_means\" of 2"));
  EXPECT_THAT(said("input", "-125000", "1e999"), HasSubstr("\"target_means\""));
  EXPECT_THAT(said("model", "huber", "bce"), HasSubstr("delta has no meaning"));
  ModelCard arrays = NumbersCard();
  arrays.layers[1] = {};
  arrays.layers[1].kind = proto::LayerKind::kMae;
  arrays.data.format = proto::DatasetFormat::kNpy;
  arrays.data.labels.clear();
  arrays.columns.clear();
  arrays.label_columns.clear();
  EXPECT_TRUE(CardIn(MetadataOf(arrays)).ok());
  EXPECT_THAT(Said(arrays, "model", "mae", "bce"), HasSubstr("2 \"target_means\" of 0"));
  EXPECT_THAT(Said(arrays, "data", "\"npy\"", "\"text\""), HasSubstr("learns numbers"));
  EXPECT_THAT(
      Said(arrays, "input", "\"labels\":2", "\"labels\":1"),
      HasSubstr("the number of labels of a sample is 1; allowed is 2 to 2"));
  arrays.label_columns = {"price", "days"};
  EXPECT_THAT(
      CardIn(MetadataOf(arrays)).status().message(),
      HasSubstr("2 \"label_columns\" of data without columns"));
}

TEST(ModelCardTest, NumbersHaveTheirNamesAndMeans) {
  const test::DataFolder folder;
  const auto write = [&folder](const std::string& name, const std::string& text) {
    folder.Write(name, test::Bytes(text.begin(), text.end()));
  };
  write("train.csv", "price,x,days,z\n1,0,2,2\n3,0,4,4\n100,0,0,0\n");
  write("test.csv", "price,x,days,z\n7,8,9,0\n");
  proto::JobConfig config;
  config.model.layers = NumbersCard().layers;
  config.data.format = proto::DatasetFormat::kCsv;
  config.data.directory = folder.path();
  config.data.labels = {"days", "price"};
  config.data.train_samples = 2;
  const auto card = CardOfJob(config);
  ASSERT_TRUE(card.ok()) << card.status();
  EXPECT_THAT(card->columns, testing::ElementsAre("x", "z"));
  EXPECT_THAT(card->label_columns, testing::ElementsAre("days", "price"));
  EXPECT_EQ(card->TargetName(1), "price");
  EXPECT_THAT(card->target_means, testing::ElementsAre(3, 2)) << "of the samples that count";
  EXPECT_EQ(CardIn(MetadataOf(*card))->value(), *card);

  config.model.layers[1] = {};
  config.model.layers[1].kind = proto::LayerKind::kBce;
  EXPECT_FALSE(CardOfJob(config).ok()) << "labels that are not 0 and 1";
  write("train.csv", "price,x,days,z\n1,0,0,2\n0,0,1,4\n");
  write("test.csv", "price,x,days,z\n1,8,0,0\n");
  const auto labels = CardOfJob(config);
  ASSERT_TRUE(labels.ok()) << labels.status();
  EXPECT_TRUE(labels->target_means.empty()) << "nothing is measured with them";
  EXPECT_EQ(CardIn(MetadataOf(*labels))->value(), *labels);
}

TEST(ModelCardTest, AJobsDataSayWhatBecomesOfInputs) {
  const test::DataFolder folder;
  test::WriteIdxSet(folder, 6, 3);
  proto::JobConfig config;
  config.model.name = "mlp";
  config.data.format = proto::DatasetFormat::kIdx;
  config.data.directory = folder.path();
  config.data.train_samples = 3;
  const auto card = CardOfJob(config);
  ASSERT_TRUE(card.ok()) << card.status();
  ASSERT_EQ(card->normals.size(), 1U);
  EXPECT_DOUBLE_EQ(card->normals[0].mean, 8.5) << "of the bytes 0 to 17, of 3 pictures of 2x3";
  EXPECT_EQ(card->classes, 3);
  EXPECT_EQ(card->layers.size(), 6U) << "the zoo's layers are written out";
  EXPECT_EQ(CardIn(MetadataOf(*card))->value(), *card);
  config.worker.program = {"python3"};
  EXPECT_EQ(CardOfJob(config).status().code(), StatusCode::kUnsupported);
}

TEST(ModelCardTest, ATablesColumnsAndClassesHaveTheirNames) {
  const test::DataFolder folder;
  const auto write = [&folder](const std::string& name, const std::string& text) {
    folder.Write(name, test::Bytes(text.begin(), text.end()));
  };
  write("train.csv", "x,kind, z \n1,b,2\n3,a,4\n");
  write("test.csv", "x,kind, z \n1,b,2\n");
  proto::JobConfig config;
  config.model.name = "mlp";
  config.data.format = proto::DatasetFormat::kCsv;
  config.data.directory = folder.path();
  config.data.label = "kind";
  const auto card = CardOfJob(config);
  ASSERT_TRUE(card.ok()) << card.status();
  EXPECT_THAT(card->columns, testing::ElementsAre("x", "z"));
  EXPECT_THAT(card->label_columns, testing::ElementsAre("kind"));
  EXPECT_THAT(card->class_names, testing::ElementsAre("a", "b"));
  EXPECT_EQ(card->ClassName(1), "b");
}

}  // namespace
}  // namespace ps::worker
