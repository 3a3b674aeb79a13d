#include "worker/use/torch_module.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ps/base/text.h"
#include "ps/json/json_writer.h"
#include "worker/use/torch_text.h"

namespace ps::worker {
namespace {

using proto::LayerConfig;
using proto::LayerKind;

/// The dimensions of a tensor in PyTorch. [n, c, 1, 1] is as flat as [n, c] to a layer here, and
/// isn't to one there.
enum class Rank : uint8_t { kFlat, kSequence, kImage };

Rank RankOf(const Shape& shape) {
  if (shape.kind != ShapeKind::kImage) {
    return Rank::kSequence;
  }
  return shape.is_flat() ? Rank::kFlat : Rank::kImage;
}

bool NeedsImage(LayerKind kind) {
  return kind == LayerKind::kConv2d || kind == LayerKind::kMaxPool || kind == LayerKind::kAvgPool;
}

bool NeedsFlat(LayerKind kind) {
  return kind == LayerKind::kLinear || kind == LayerKind::kLayerNorm;
}

/// For a docstring: the name is of a file that anybody may have made, and must not end the string.
std::string DocText(const std::string& name) {
  std::string text = Clip(Printable(name), 80);
  std::erase_if(text, [](char c) { return c == '"' || c == '\\'; });
  return text;
}

std::string Indented(const std::string& text, size_t spaces) {
  std::string out;
  size_t at = 0;
  while (at < text.size()) {
    const size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    out += (text[at] == '\n' ? "" : std::string(spaces, ' ')) + text.substr(at, end - at);
    at = end;
  }
  return out;
}

/// Writes layers as expressions, and notes which classes of torch_text.h they take.
class LayerWriter {
 public:
  const std::set<std::string, std::less<>>& helpers() const { return helpers_; }

  /// A layer that can't be written; empty: all can.
  const std::string& unknown() const { return unknown_; }

  /// A Sequential. `rank` is that of its input, and then that of its output.
  std::string Sequence(
      const std::vector<LayerConfig>& configs, const std::vector<Layer>& layers, Rank* rank) {
    std::string entries;
    size_t at = 0;  // of `layers`: some configs stand for three
    for (const LayerConfig& config : configs) {
      if (at == layers.size()) {
        break;  // a loss at the end, which is no layer
      }
      const bool is_parts =
          config.kind == LayerKind::kAttention || config.kind == LayerKind::kFeedForward;
      const std::string text =
          is_parts ? OfParts(config, layers[at].in) : One(config, layers[at], rank);
      at += is_parts ? 3 : 1;
      entries += Indented(text + ",\n", 4);
    }
    return "nn.Sequential(\n" + entries + ")";
  }

 private:
  /// "nn.Linear", or the class that makes the input's dimensions those that it takes.
  std::string ClassOf(LayerKind kind, std::string_view name, Rank* rank) {
    const bool is_image = *rank == Rank::kImage;
    const char* const change = is_image && NeedsFlat(kind)                ? "Flat"
                               : *rank == Rank::kFlat && NeedsImage(kind) ? "Pixel"
                                                                          : "nn.";
    *rank = NeedsImage(kind) ? Rank::kImage : is_image && NeedsFlat(kind) ? Rank::kFlat : *rank;
    std::string own = change + std::string(name);
    helpers_.insert(own);
    return own;
  }

  std::string OfParts(const LayerConfig& config, const Shape& in) {
    if (config.kind == LayerKind::kAttention) {
      helpers_.insert("Attention");
      return fmt::format(
          "Attention({}, {}, causal={})",
          in.channels,
          config.heads,
          config.causal ? "True" : "False");
    }
    helpers_.insert("FeedForward");
    return fmt::format(
        "FeedForward({}, {})",
        in.channels,
        config.hidden == 0 ? 4 * in.channels : int64_t{config.hidden});
  }

  std::string Pool(std::string_view name, const LayerConfig& config, Rank* rank) {
    return fmt::format(
        "{}({}, stride={}, padding={})",
        ClassOf(config.kind, name, rank),
        config.kernel,
        config.stride,
        config.padding);
  }

  std::string One(const LayerConfig& written, const Layer& layer, Rank* rank) {
    const LayerConfig& config = layer.config;
    const char* const no_bias = config.bias ? "" : ", bias=False";
    switch (layer.kind) {
      case LayerKind::kLinear:
        return fmt::format(
            "{}({}, {}{})",
            ClassOf(layer.kind, "Linear", rank),
            layer.in.channels,
            layer.out.channels,
            no_bias);
      case LayerKind::kConv2d:
        return fmt::format(
            "{}({}, {}, {}, stride={}, padding={}{}{})",
            ClassOf(layer.kind, "Conv2d", rank),
            layer.in.channels,
            layer.out.channels,
            config.kernel,
            config.stride,
            config.padding,
            config.groups > 1 ? fmt::format(", groups={}", config.groups) : "",
            no_bias);
      case LayerKind::kBatchNorm:
        return fmt::format(
            "nn.BatchNorm{}d({}, eps={}, momentum={})",
            *rank == Rank::kImage ? 2 : 1,
            layer.in.channels,
            NumberText(config.epsilon),
            NumberText(config.momentum));
      case LayerKind::kMaxPool:
        return Pool("MaxPool2d", config, rank);
      case LayerKind::kAvgPool:
        return Pool("AvgPool2d", config, rank);
      case LayerKind::kGlobalAvgPool:
        return Mean(rank);
      case LayerKind::kRelu:
        return "nn.ReLU()";
      case LayerKind::kGelu:
        return "nn.GELU()";
      case LayerKind::kTanh:
        return "nn.Tanh()";
      case LayerKind::kSigmoid:
        return "nn.Sigmoid()";
      case LayerKind::kDropout:
        return fmt::format("nn.Dropout({})", NumberText(config.rate));
      case LayerKind::kFlatten:
        return Flatten(rank);
      case LayerKind::kResidual:
        return Residual(written, layer, rank);
      case LayerKind::kEmbedding:
        helpers_.insert("Embedding");
        return fmt::format(
            "Embedding({}, {}, {})", layer.in.vocabulary, layer.in.height, layer.out.channels);
      case LayerKind::kLayerNorm:
        return fmt::format(
            "{}({}, eps={})",
            ClassOf(layer.kind, "LayerNorm", rank),
            layer.in.channels,
            NumberText(config.epsilon));
      case LayerKind::kGroupNorm:
        return fmt::format(
            "nn.GroupNorm({}, {}, eps={})",
            config.groups,
            layer.in.channels,
            NumberText(config.epsilon));
      default:
        unknown_ = layer.name;
        return "";
    }
  }

  std::string Mean(Rank* rank) {
    const std::string name = *rank == Rank::kSequence ? "TokenMean()"
                             : *rank == Rank::kImage  ? "ImageMean()"
                                                      : "nn.Identity()";
    helpers_.insert(name.substr(0, name.size() - 2));
    *rank = Rank::kFlat;
    return name;
  }

  std::string Flatten(Rank* rank) {
    const bool is_sequence = *rank == Rank::kSequence;
    *rank = Rank::kFlat;
    if (is_sequence) {
      helpers_.insert("FlattenTokens");
    }
    return is_sequence ? "FlattenTokens()" : "nn.Flatten()";
  }

  std::string Residual(const LayerConfig& written, const Layer& layer, Rank* rank) {
    helpers_.insert("Residual");
    Rank side = *rank;
    std::string text =
        "Residual(\n" + Indented(Sequence(written.layers, layer.body, rank), 4) + ",\n";
    if (!layer.shortcut.empty()) {
      text += Indented(Sequence(written.shortcut, layer.shortcut, &side), 4) + ",\n";
    }
    return text + ")";
  }

  std::set<std::string, std::less<>> helpers_;
  std::string unknown_;
};

std::string Texts(const std::vector<std::string>& texts) {
  std::string list = "[\n";
  for (const std::string& text : texts) {
    JsonWriter json(JsonForm::kOneLine);
    json.Value(text);
    list += "    " + std::move(json).Take() + ",\n";
  }
  return list + "]";
}

std::string Numbers(const ModelCard& card, double ByteNormal::*value) {
  std::string list;
  for (const ByteNormal& normal : card.normals) {
    list += (list.empty() ? "[" : ", ") + NumberText(normal.*value);
  }
  return list + "]";
}

/// What is known of the inputs, as constants.
std::string Constants(const ModelCard& card) {
  std::string text;
  const proto::Task task = card.task();
  if (task != proto::Task::kClasses) {
    if (!card.label_columns.empty()) {
      text += (task == proto::Task::kNumbers ? "TARGETS = " : "LABELS = ") +
              Texts(card.label_columns) + "  # of the outputs, in their order\n";
    }
  } else if (card.labels == 1) {
    text += card.class_names.empty()
                ? fmt::format("CLASSES = [str(i) for i in range({})]\n", card.classes)
                : "CLASSES = " + Texts(card.class_names) + "\n";
  }
  if (!card.columns.empty()) {
    text += "COLUMNS = " + Texts(card.columns) + "  # of the inputs, in their order\n";
  }
  if (!card.normals.empty()) {
    text += "MEAN = " + Numbers(card, &ByteNormal::mean) + "  # of the bytes, by channel\n";
    text += "DEVIATION = " + Numbers(card, &ByteNormal::deviation) + "\n";
  }
  if (card.tokens > 0) {
    text += fmt::format(
        "TOKENIZER = {{\n    \"tokens\": {},\n    \"vocab.json sha256\": \"{}\",\n    \"merges.txt "
        "sha256\": \"{}\",\n}}  # of the library tokenizers: ByteLevelBPETokenizer\n",
        card.tokens,
        card.vocabulary_sha256,
        card.merges_sha256);
  }
  return text;
}

/// What the network gives: the loss of the training is no part of it.
std::string MeaningOfOutputs(const ModelCard& card) {
  const bool has_names = !card.label_columns.empty();
  switch (card.task()) {
    case proto::Task::kNumbers:
      return fmt::format(
          "Outputs [n, {}] are the values themselves, as they were in the data{}.",
          card.classes,
          has_names ? ", in the order of TARGETS" : "");
    case proto::Task::kLabels:
      return fmt::format(
          "Outputs [n, {}] are logits: outputs.sigmoid() is each label's own probability{}.",
          card.classes,
          has_names ? ",\nin the order of LABELS" : "");
    case proto::Task::kClasses:
      break;
  }
  return card.labels == 1
             ? fmt::format(
                   "Outputs [n, {}] are logits: outputs.softmax(dim=1) has the probabilities of "
                   "CLASSES.",
                   card.classes)
             : fmt::format(
                   "Outputs [n, {}, {}] are logits: outputs.softmax(dim=2) has each token's "
                   "probabilities.",
                   card.labels,
                   card.classes);
}

std::string Prepare(const ModelCard& card) {
  const Shape& in = card.input;
  if (in.kind == ShapeKind::kTokens) {
    return fmt::format(kPrepareTokens, in.height, in.vocabulary);
  }
  const int64_t pad = card.data.format == proto::DatasetFormat::kNpy ? 0 : int64_t{card.data.pad};
  const std::string shape =
      in.is_flat()
          ? fmt::format("{}", in.channels)
          : fmt::format("{}, {}, {}", in.channels, in.height - 2 * pad, in.width - 2 * pad);
  if (card.normals.empty()) {
    return fmt::format(kPrepareValues, shape);
  }
  const std::string black =
      pad > 0 ? fmt::format("    inputs = functional.pad(inputs, ({0}, {0}, {0}, {0}))\n", pad)
              : "";
  std::string read;
  if (card.data.format == proto::DatasetFormat::kPictures) {
    read =
        fmt::format(kReadPicture, in.channels, in.height, in.width, in.channels == 1 ? "L" : "RGB");
  }
  return read + fmt::format(kPrepareBytes, shape, black, in.is_flat() ? "(-1,)" : "(-1, 1, 1)");
}

}  // namespace

Result<std::string> TorchModule(const ModelCard& card, const std::string& name) {
  PS_ASSIGN(const Model model, ModelOf(card));
  LayerWriter writer;
  Rank rank = RankOf(card.input);
  const std::string network = writer.Sequence(card.layers, model.layers, &rank);
  if (!writer.unknown().empty()) {
    return Status::Unsupported(
        fmt::format("layer {} is of a kind that no module has yet", writer.unknown()));
  }
  std::string helpers;
  for (const TorchHelper& helper : kTorchHelpers) {
    if (writer.helpers().contains(helper.name)) {
      helpers += "\n\n" + std::string(helper.text);
    }
  }
  std::string text = fmt::format(kModuleHead, DocText(name), MeaningOfOutputs(card));
  text += Constants(card) + helpers;
  text +=
      "\n\ndef network():\n    \"\"\"The layers, with values drawn by chance.\"\"\"\n    return ";
  text += Indented(network, 4).substr(4) + "\n";
  text += "\n\n" + Prepare(card);
  return text + std::string(kModuleEnd);
}

}  // namespace ps::worker
