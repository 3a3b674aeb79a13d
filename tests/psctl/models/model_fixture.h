#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/model/safetensors.h"
#include "ps/base/file.h"
#include "ps/base/random.h"
#include "tests/base/png_bytes.h"
#include "tests/psctl/command_fixture.h"
#include "worker/use/model_card.h"

namespace ps::psctl {

/// An array as numpy.save writes it.
template <typename T>
std::string NpyBytes(
    std::string_view type, const std::string& shape, const std::vector<T>& values) {
  std::string header =
      "{'descr': '" + std::string(type) + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  header.resize((header.size() + 10 + 63) / 64 * 64 - 10, ' ');
  header.back() = '\n';
  std::string bytes("\x93NUMPY\x01\x00", 8);
  bytes += static_cast<char>(header.size() & 0xffU);
  bytes += static_cast<char>(header.size() >> 8U);
  bytes += header;
  const size_t at = bytes.size();
  bytes.resize(at + values.size() * sizeof(T));
  std::memcpy(bytes.data() + at, values.data(), values.size() * sizeof(T));
  return bytes;
}

/// An IDX file: `magic`, sizes, bytes.
inline std::string IdxBytes(
    uint32_t magic, const std::vector<uint32_t>& sizes, std::string_view values) {
  std::string bytes;
  const auto add = [&bytes](uint32_t number) {
    for (int shift = 24; shift >= 0; shift -= 8) {
      bytes += static_cast<char>(number >> shift & 0xffU);
    }
  };
  add(magic);
  for (const uint32_t size : sizes) {
    add(size);
  }
  return bytes + std::string(values);
}

/// For tests of commands on trained models, which are files of values that nobody trained.
class ModelFixture : public CommandFixture {
 protected:
  static proto::LayerConfig LayerOf(proto::LayerKind kind, int32_t out = 0) {
    proto::LayerConfig layer;
    layer.kind = kind;
    layer.out = out;
    return layer;
  }

  void WriteFile(const std::string& name, const std::string& bytes) {
    ASSERT_TRUE(WriteFileAtomically(root_ / name, bytes).ok());
  }

  /// A model file with these values one after the other in all tensors, or, if there are none,
  /// with some from -0.4 to 0.4, 1 more for what scales.
  void WriteModel(
      const std::string& name,
      const worker::ModelCard& card,
      const std::vector<float>& values = {},
      const worker::Metadata& more = {}) {
    const auto model = worker::ModelOf(card);
    ASSERT_TRUE(model.ok()) << model.status();
    worker::Metadata metadata = worker::MetadataOf(card);
    metadata.insert(more.begin(), more.end());
    auto writer = checkpoint::SafetensorsWriter::Create(
        root_ / name, model->tensors, checkpoint::ElementType::kF32, metadata);
    ASSERT_TRUE(writer.ok()) << writer.status();
    Random random(7);
    size_t at = 0;
    for (size_t i = 0; i < model->tensors.size(); ++i) {
      const std::string& tensor = model->tensors[i].name;
      const bool scales = tensor.ends_with("gamma") || tensor.ends_with("running_variance");
      std::vector<float> own(static_cast<size_t>(model->tensors[i].element_count()));
      for (float& value : own) {
        value = values.empty()
                    ? static_cast<float>(0.8 * random.Unit() - 0.4) + (scales ? 1.0F : 0.0F)
                    : values.at(at++);
      }
      ASSERT_TRUE(writer->Write(i, 0, own).ok());
    }
    ASSERT_TRUE(writer->Finish().ok());
  }

  /// Two numbers, a and b, to three classes: outputs are a, b and 0.
  worker::ModelCard TableCard() {
    worker::ModelCard card;
    card.layers = {LayerOf(proto::LayerKind::kLinear, 3)};
    card.data.format = proto::DatasetFormat::kCsv;
    card.data.directory = root_ / "data";
    card.input = {2, 1, 1};
    card.classes = 3;
    card.class_names = {"cat", "dog, wet", "emu"};
    card.columns = {"a", "b"};
    card.label_columns = {"kind"};
    return card;
  }

  const std::vector<float> table_values_ = {1, 0, 0, 1, 0, 0, 0, 0, 0};  // weight, bias

  /// Two numbers, a and b, to two numbers, or to two labels: outputs are a and b.
  worker::ModelCard TargetsCard(proto::LayerKind loss) {
    worker::ModelCard card;
    card.layers = {LayerOf(proto::LayerKind::kLinear, 2), LayerOf(loss)};
    card.data.format = proto::DatasetFormat::kCsv;
    card.data.directory = root_ / "data";
    card.input = {2, 1, 1};
    card.classes = 2;
    card.labels = 2;
    card.columns = {"a", "b"};
    if (loss == proto::LayerKind::kBce) {
      card.label_columns = {"garden", "garage"};
    } else {
      card.label_columns = {"price", "days"};
      card.target_means = {1, 2};
    }
    card.data.labels = card.label_columns;
    return card;
  }

  const std::vector<float> targets_values_ = {1, 0, 0, 1, 0, 0};  // weight, bias

  /// Grey pictures of one pixel in files, to two classes: 100 is 0 to the first, 150 is 1.
  worker::ModelCard PictureCard() {
    worker::ModelCard card;
    card.layers = {LayerOf(proto::LayerKind::kLinear, 2)};
    card.data.format = proto::DatasetFormat::kPictures;
    card.data.directory = root_ / "pictures";
    card.input = {1, 1, 1};
    card.classes = 2;
    card.class_names = {"bright", "dark"};
    card.normals = {{100, 50}};
    return card;
  }

  const std::vector<float> picture_values_ = {1, 0, 0, 0};  // weight, bias

  /// A PNG of one grey value.
  void WritePicture(const std::string& name, uint8_t grey) {
    const std::filesystem::path path = root_ / name;
    std::filesystem::create_directories(path.parent_path());
    WriteFile(name, PngOf(2, 3, std::string(6, static_cast<char>(grey))));
  }

  /// A text of 4 bytes at a time; after a byte comes the next one of "abcd", whatever stands before
  /// it.
  worker::ModelCard TextCard() {
    worker::ModelCard card;
    card.layers = {
        LayerOf(proto::LayerKind::kEmbedding, 128), LayerOf(proto::LayerKind::kLinear, 128)};
    card.data.format = proto::DatasetFormat::kText;
    card.data.directory = root_ / "text";
    card.data.context = 4;
    card.data.vocabulary = 128;
    card.input = {1, 4, 1, worker::ShapeKind::kTokens, 128};
    card.classes = 128;
    card.labels = 4;
    return card;
  }

  /// The values of that: each token's vector has its own place, and so has each output.
  static std::vector<float> TextValues() {
    std::vector<float> values(128 * 128 + 4 * 128 + 128 * 128 + 128);
    for (size_t token = 0; token < 128; ++token) {
      values[token * 128 + token] = 1;
      const size_t next = token >= 'a' && token < 'd' ? token + 1 : 'a';
      values[128 * 128 + 4 * 128 + next * 128 + token] = 20;
    }
    return values;
  }
};

}  // namespace ps::psctl
