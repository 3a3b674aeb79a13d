#include "worker/data/text/bpe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "ps/base/file.h"
#include "tests/worker/data/data_files.h"
#include "worker/data/dataset.h"
#include "worker/data/npy/npy_file.h"
#include "worker/data/text/pretokens.h"
#include "worker/data/text/unicode_classes.h"

namespace ps::worker::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// tests/data/bpe was made by the library `tokenizers`: scripts/golden_tokens.py.
constexpr const char* kFolder = "tests/data/bpe";

std::string Golden(const std::string& name) {
  return ReadFile(std::string(kFolder) + "/" + name).value();
}

std::vector<std::string> PiecesOf(std::string_view text) {
  std::vector<std::string> pieces;
  while (!text.empty()) {
    pieces.emplace_back(text.substr(0, PretokenBytes(text)));
    text.remove_prefix(pieces.back().size());
  }
  return pieces;
}

std::vector<uint32_t> Encoded(Bpe* bpe, std::string_view text) {
  std::vector<uint32_t> tokens;
  bpe->Encode(text, &tokens);
  return tokens;
}

/// The golden vocabulary with one text in it replaced.
std::string Vocabulary(std::string_view from, std::string_view to) {
  std::string text = Golden("vocab.json");
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string ParseError(std::string_view vocabulary, std::string_view merges) {
  return Bpe::Parse(vocabulary, "vocab.json", merges, "merges.txt").status().ToString();
}

TEST(PretokensTest, ATextIsCutAsTheExpressionOfGpt2Says) {
  EXPECT_THAT(PiecesOf("we've  it's"), ElementsAre("we", "'ve", " ", " it", "'s"));
  EXPECT_THAT(PiecesOf("DON'T 's!'s"), ElementsAre("DON", "'", "T", " '", "s", "!'", "s"));
  EXPECT_THAT(PiecesOf("x2 y 3.5\n"), ElementsAre("x", "2", " y", " 3", ".", "5", "\n"));
  EXPECT_THAT(PiecesOf("a\n\n\tb \t"), ElementsAre("a", "\n\n", "\t", "b", " \t"));
  EXPECT_THAT(PiecesOf(" \n c"), ElementsAre(" \n", " c"));
  // A no-break space is white, and no space that belongs to a word.
  EXPECT_THAT(
      PiecesOf("\xc3\xa9t\xc3\xa9\xc2\xa0x \xe2\x80\xa6"),
      ElementsAre("\xc3\xa9t\xc3\xa9", "\xc2\xa0", "x", " \xe2\x80\xa6"));
}

TEST(PretokensTest, ARunWithoutAnEndIsCut) {
  const std::string letters(2 * kPretokenBytesMax + 5, 'a');
  EXPECT_THAT(
      PiecesOf(letters),
      ElementsAre(
          std::string(kPretokenBytesMax, 'a'),
          std::string(kPretokenBytesMax, 'a'),
          std::string(5, 'a')));
  const std::string spaces = std::string(kPretokenBytesMax + 2, ' ') + "x";
  EXPECT_THAT(PiecesOf(spaces), ElementsAre(std::string(kPretokenBytesMax, ' '), " ", " x"));
}

TEST(UnicodeClassesTest, EachCharacterIsOfOneClass) {
  EXPECT_EQ(ClassOf('a'), CharacterClass::kLetter);
  EXPECT_EQ(ClassOf('0'), CharacterClass::kNumber);
  EXPECT_EQ(ClassOf('\n'), CharacterClass::kSpace);
  EXPECT_EQ(ClassOf(0x1c), CharacterClass::kOther);  // a separator, which is not white
  EXPECT_EQ(ClassOf(0xaa), CharacterClass::kLetter);
  EXPECT_EQ(ClassOf(0xb2), CharacterClass::kNumber);
  EXPECT_EQ(ClassOf(0x3000), CharacterClass::kSpace);
  EXPECT_EQ(ClassOf(0x301), CharacterClass::kOther);  // an accent by itself
  EXPECT_EQ(ClassOf(0x9fff), CharacterClass::kLetter);
  EXPECT_EQ(ClassOf(0x10348), CharacterClass::kLetter);
  EXPECT_EQ(ClassOf(0x10ffff), CharacterClass::kOther);
}

TEST(BpeTest, TokensAreThoseOfTheLibraryThatMadeTheVocabulary) {
  Bpe bpe = Bpe::Load(kFolder).value();
  EXPECT_EQ(bpe.size(), 600U);
  const NpyFile golden = NpyFile::Open(std::string(kFolder) + "/tokens.npy").value();
  std::vector<uint32_t> expected;
  for (uint64_t i = 0; i < golden.rows(); ++i) {
    expected.push_back(static_cast<uint32_t>(golden.WholeAt(i)));
  }
  const std::string text = Golden("text.txt");
  EXPECT_EQ(Encoded(&bpe, text), expected);
  EXPECT_EQ(Encoded(&bpe, text), expected);  // from what was seen
  std::string back;
  for (const uint32_t token : expected) {
    back += bpe.BytesOf(token);
  }
  EXPECT_EQ(back, text);
}

TEST(BpeTest, TheLowestRankMergesFirstAndTheLeftmostOfIt) {
  const std::string vocabulary =
      Vocabulary("\"!\":0", R"("ab":600,"bc":601,"aa":602,"aab":603,"!":0)");
  const auto spelled = [&](std::string_view merges, std::string_view text) {
    Bpe bpe = Bpe::Parse(vocabulary, "v", merges, "m").value();
    std::vector<std::string> parts;
    for (const uint32_t token : Encoded(&bpe, text)) {
      parts.emplace_back(bpe.BytesOf(token));
    }
    return parts;
  };
  EXPECT_THAT(spelled("a b\nb c\n", "abcabc"), ElementsAre("ab", "c", "ab", "c"));
  EXPECT_THAT(spelled("#version: 0.2\r\nb c\r\na b", "abc"), ElementsAre("a", "bc"));
  EXPECT_THAT(spelled("a a\n", "aaaaa"), ElementsAre("aa", "aa", "a"));
  EXPECT_THAT(spelled("a a\na b\naa b\n", "aaab"), ElementsAre("aa", "ab"));
  EXPECT_THAT(spelled("a a\naa b\na b\n", "aaab aab"), ElementsAre("aa", "ab", " ", "aab"));
  EXPECT_THAT(spelled("", "ab"), ElementsAre("a", "b"));
}

TEST(BpeTest, AVocabularyThatIsNoneIsRefusedWithPlaceAndRemedy) {
  EXPECT_THAT(ParseError("[1]", ""), HasSubstr("vocab.json:1:1: a list of 1 entries; allowed: an"));
  EXPECT_THAT(ParseError("{}", ""), HasSubstr("an object of 1 to 1048576 tokens"));
  EXPECT_THAT(ParseError("{\"a\":0", ""), HasSubstr("vocab.json:1:7: the text ends too early"));
  EXPECT_THAT(ParseError("{\"a\":0,\"a\":1}", ""), HasSubstr("\"a\" is given twice"));
  EXPECT_THAT(
      ParseError("{\"a\":0}", ""),
      HasSubstr("byte 0 has no token; allowed: one for each of the 256"));
  const auto error = [](std::string_view from, std::string_view to) {
    return ParseError(Vocabulary(from, to), "");
  };
  EXPECT_THAT(
      error("\"!\":0", "\"!\":1"),
      HasSubstr("vocab.json:1:13: the number of \"\"\" is 1 again; allowed: 0 to 599, each once"));
  EXPECT_THAT(
      error("\"!\":0", "\"!\":600"), HasSubstr("the number of \"!\" is 600; allowed: 0 to"));
  EXPECT_THAT(error("\"!\":0", "\"!\":-1"), HasSubstr("is -1; allowed"));
  EXPECT_THAT(error("\"!\":0", "\"!\":0.5"), HasSubstr("is 0.5; allowed"));
  EXPECT_THAT(error("\"!\":0", "\"!\":[0]"), HasSubstr("is a list; allowed"));
  EXPECT_THAT(
      error("\"!\":0", "\"a b\":0"),
      HasSubstr("vocab.json:1:2: \"a b\" spells no bytes as GPT-2 does"));
  EXPECT_THAT(error("\"!\":0", "\"\xe2\x96\x81the\":0"), HasSubstr("spells no bytes"));
  EXPECT_THAT(error("\"!\":0", "\"\":0"), HasSubstr("spells no bytes"));
}

TEST(BpeTest, MergesOfAnotherVocabularyAreRefusedWithTheLine) {
  const std::string vocabulary = Golden("vocab.json");
  const auto error = [&](std::string_view merges) { return ParseError(vocabulary, merges); };
  EXPECT_THAT(error("#version: 0.2\nr s\nq z\n"), HasSubstr("merges.txt:2: \"rs\" is no token"));
  EXPECT_THAT(error("e r\nqz er\n"), HasSubstr("merges.txt:2: \"qz\" is no token of vocab.json"));
  EXPECT_THAT(error("e r\n\ne r\n"), HasSubstr("merges.txt:3: \"e r\" is there before"));
  EXPECT_THAT(error("er\n"), HasSubstr("merges.txt:1: \"er\" is no merge; allowed: two tokens"));
  EXPECT_THAT(error("e r s\n"), HasSubstr("\"e r s\" is no merge"));
  EXPECT_THAT(error("e \n"), HasSubstr("\"\" is no token"));
}

/// A job's data: a text of files and the golden tokenizer.
class TokenizedTextTest : public testing::Test {
 protected:
  TokenizedTextTest() {
    config_.format = proto::DatasetFormat::kText;
    config_.directory = folder_.path();
    config_.tokenizer = kFolder;
    config_.context = 4;
    config_.test_share = 0.25F;
    Write("a.txt", "the servers and the workers of the job, and the losses\n");
    Write("b.txt", "the checkpoints of the servers\n");
  }

  void Write(const std::string& name, std::string_view text) const {
    folder_.Write(name, Bytes(text.begin(), text.end()));
  }

  std::string LoadError() const {
    const Status status = Dataset::Load(config_).status();
    EXPECT_EQ(Dataset::Inspect(config_).status().ToString(), status.ToString());
    return status.ToString();
  }

  DataFolder folder_;
  proto::DataConfig config_;
};

TEST_F(TokenizedTextTest, LoadingSaysHowFarItIsAndEndsWhenItIsToldTo) {
  LoadProgress progress;
  ASSERT_TRUE(Dataset::Load(config_, &progress).ok());
  EXPECT_EQ(progress.share(), 1);
  progress.Cancel();
  EXPECT_EQ(Dataset::Load(config_, &progress).status().code(), StatusCode::kCancelled);
}

TEST_F(TokenizedTextTest, WindowsAreOfTokensAndTheVocabularyIsThatOfTheFiles) {
  const Dataset dataset = Dataset::Load(config_).value();
  EXPECT_EQ(dataset.info().shape.vocabulary, 600);
  EXPECT_EQ(dataset.info().classes, 600);
  Bpe bpe = Bpe::Load(kFolder).value();
  std::vector<uint32_t> tokens;
  for (const char* name : {"a.txt", "b.txt"}) {
    bpe.Encode(ReadFile(folder_.path() + "/" + name).value(), &tokens);
  }
  const uint64_t train = tokens.size() - tokens.size() / 4;
  EXPECT_EQ(dataset.info().train_count, (train - 1) / 4);
  std::vector<float> inputs(4);
  std::vector<uint32_t> labels(4);
  const BatchMemory memory{inputs, labels};
  const EpochOrder order(1, 0, dataset.info().train_count);
  for (uint64_t i = 0; i < order.count(); ++i) {
    ASSERT_TRUE(dataset.FetchTrain(order, {i, i + 1}, memory).ok());
    const uint64_t begin = 4 * order.SampleAt(i);
    for (uint64_t k = 0; k < 4; ++k) {
      EXPECT_EQ(inputs[k], static_cast<float>(tokens[begin + k]));
      EXPECT_EQ(labels[k], tokens[begin + k + 1]);
    }
  }
  config_.vocabulary = 640;  // some more, for a size that a device likes
  config_.mask = 0.5F;
  EXPECT_EQ(Dataset::Inspect(config_)->shape.vocabulary, 641);
}

TEST_F(TokenizedTextTest, TheFingerprintIsOfTheTokenizerToo) {
  const proto::DatasetFingerprint before = Dataset::Load(config_)->fingerprint();
  const DataFolder other;
  const auto write = [&](const std::string& name, std::string_view text) {
    other.Write(name, Bytes(text.begin(), text.end()));
  };
  config_.tokenizer = other.path();
  write("vocab.json", Golden("vocab.json"));
  write("merges.txt", Golden("merges.txt"));
  EXPECT_EQ(Dataset::Load(config_)->fingerprint(), before);
  // Two tokens that the text has not change places: the tokens of the text are the same.
  write("vocab.json", Vocabulary("\"X\":55,\"Y\":56", "\"X\":56,\"Y\":55"));
  proto::DatasetFingerprint after = Dataset::Load(config_)->fingerprint();
  EXPECT_EQ(after.train_images_crc, before.train_images_crc);
  EXPECT_NE(after.train_labels_crc, before.train_labels_crc);
  write("vocab.json", Golden("vocab.json"));
  write("merges.txt", Golden("merges.txt") + "1 2\n");
  EXPECT_THAT(LoadError(), HasSubstr("merges.txt:346: \"12\" is no token"));
  std::string merges = Golden("merges.txt");
  merges.resize(merges.rfind('\n', merges.size() - 2) + 1);  // without the last
  write("merges.txt", merges);
  EXPECT_NE(Dataset::Load(config_)->fingerprint(), before);
}

TEST_F(TokenizedTextTest, WhatCannotBeCutIsRefusedWithPlaceAndRemedy) {
  Write("b.txt", "caf\xe9");
  EXPECT_THAT(LoadError(), HasSubstr("b.txt: byte 3: 0xe9 is not UTF-8"));
  Write("b.txt", "x");
  config_.vocabulary = 599;
  EXPECT_THAT(LoadError(), HasSubstr("data.vocabulary is 599; allowed: from 600, the tokens that"));
  config_.vocabulary = 0;
  config_.context = 400;
  EXPECT_THAT(LoadError(), HasSubstr("tokens of text for training"));
  config_.tokenizer = folder_.path();
  EXPECT_THAT(LoadError(), HasSubstr("data.tokenizer \"" + folder_.path() + "\" cannot be used: "));
  EXPECT_THAT(LoadError(), HasSubstr("vocab.json"));
}

}  // namespace
}  // namespace ps::worker::test
