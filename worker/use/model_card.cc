#include "worker/use/model_card.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string_view>
#include <utility>

#include "ps/base/text.h"
#include "ps/json/json_value.h"
#include "ps/json/json_writer.h"

namespace ps::worker {
namespace {

constexpr const char* kVersionKey = "spotps_model";
constexpr const char* kVersion = "1";
constexpr const char* kModelKey = "model";
constexpr const char* kDataKey = "data";
constexpr const char* kInputKey = "input";
constexpr std::array<std::string_view, 3> kShapeNames = {"image", "sequence", "tokens"};
constexpr size_t kDigestDigits = 64;

void Write(const JsonValue& value, JsonWriter* json) {
  switch (value.kind) {
    case JsonValue::Kind::kText:
      json->Value(value.text);
      break;
    case JsonValue::Kind::kList:
    case JsonValue::Kind::kObject: {
      const bool is_list = value.kind == JsonValue::Kind::kList;
      is_list ? json->BeginList() : json->BeginObject();
      for (const JsonValue& child : value.children) {
        if (!is_list) {
          json->Key(child.key);
        }
        Write(child, json);
      }
      is_list ? json->EndList() : json->EndObject();
      break;
    }
    default:
      json->Raw(value.kind == JsonValue::Kind::kNull ? "null" : value.text);
  }
}

/// A section of a job as it is printed, on one line.
std::string SectionOf(const JsonValue& job, std::string_view name) {
  JsonWriter json(JsonForm::kOneLine);
  Write(*job.Find(name), &json);
  return std::move(json).Take();
}

std::string InputJson(const ModelCard& card) {
  JsonWriter json(JsonForm::kOneLine);
  const auto add_texts = [&json](const char* key, const std::vector<std::string>& texts) {
    if (texts.empty()) {
      return;
    }
    json.BeginList(key);
    for (const std::string& text : texts) {
      json.Value(text);
    }
    json.EndList();
  };
  const auto add_numbers = [&json](const char* key, const auto& numbers) {
    if (numbers.empty()) {
      return;
    }
    json.BeginList(key);
    for (const double number : numbers) {
      json.Value(number);
    }
    json.EndList();
  };
  std::vector<double> means;
  std::vector<double> deviations;
  for (const ByteNormal& normal : card.normals) {
    means.push_back(normal.mean);
    deviations.push_back(normal.deviation);
  }
  json.BeginObject();
  json.Field("kind", kShapeNames[static_cast<size_t>(card.input.kind)]);
  json.Field("channels", card.input.channels);
  json.Field("height", card.input.height);
  json.Field("width", card.input.width);
  json.Field("vocabulary", card.input.vocabulary);
  json.Field("classes", card.classes);
  json.Field("labels", card.labels);
  add_texts("class_names", card.class_names);
  add_numbers("mean", means);
  add_numbers("deviation", deviations);
  add_texts("columns", card.columns);
  add_texts("label_columns", card.label_columns);
  add_numbers("target_means", card.target_means);
  if (card.tokens > 0) {
    json.BeginObject("tokenizer");
    json.Field("tokens", card.tokens);
    json.Field("vocab_sha256", card.vocabulary_sha256);
    json.Field("merges_sha256", card.merges_sha256);
    json.EndObject();
  }
  json.EndObject();
  return std::move(json).Take();
}

Status Wrong(std::string_view key, std::string_view what) {
  return Status::Corruption(fmt::format("metadata \"{}\": {}", key, what));
}

/// What a metadata text holds. Errors: kCorruption.
Result<JsonValue> ObjectAt(const Metadata& metadata, const char* key) {
  const auto found = metadata.find(key);
  if (found == metadata.end()) {
    return Wrong(key, "missing, though the file says that it has a description of its model");
  }
  Result<JsonValue> value = ParseJson(found->second, fmt::format("metadata \"{}\"", key));
  if (!value.ok()) {
    return Status::Corruption(std::string(value.status().message()));
  }
  if (value->kind != JsonValue::Kind::kObject) {
    return Wrong(key, "no JSON object");
  }
  return value;
}

/// Reads the members of an object of metadata "input".
class InputReader {
 public:
  explicit InputReader(const JsonValue* object) : object_(*object) {}

  Status Whole(const char* name, int64_t low, int64_t high, int64_t* out) const {
    const JsonValue* const value = object_.Find(name);
    const bool is_number = value != nullptr && value->kind == JsonValue::Kind::kNumber;
    const std::string_view text = is_number ? std::string_view(value->text) : std::string_view();
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
    if (!is_number || error != std::errc() || end != text.data() + text.size() || *out < low ||
        *out > high) {
      return Wrong(kInputKey, fmt::format("\"{}\" is no whole number {} to {}", name, low, high));
    }
    return Status::Ok();
  }

  Status Text(const char* name, std::string* out) const {
    const JsonValue* const value = object_.Find(name);
    if (value == nullptr || value->kind != JsonValue::Kind::kText) {
      return Wrong(kInputKey, fmt::format("\"{}\" is no text", name));
    }
    *out = value->text;
    return Status::Ok();
  }

  /// Nothing where there is no such list.
  Status Texts(const char* name, std::vector<std::string>* out) const {
    return Each(name, JsonValue::Kind::kText, [out](const JsonValue& value) {
      out->push_back(value.text);
      return true;
    });
  }

  Status Numbers(const char* name, std::vector<double>* out) const {
    return Each(name, JsonValue::Kind::kNumber, [out](const JsonValue& value) {
      double number = 0;
      const char* const end = value.text.data() + value.text.size();
      const auto parsed = std::from_chars(value.text.data(), end, number);
      out->push_back(number);
      return parsed.ec == std::errc() && parsed.ptr == end && std::isfinite(number);
    });
  }

  const JsonValue* Find(const char* name) const { return object_.Find(name); }

 private:
  template <typename Take>
  Status Each(const char* name, JsonValue::Kind kind, const Take& take) const {
    const JsonValue* const list = object_.Find(name);
    if (list == nullptr) {
      return Status::Ok();
    }
    bool is_good = list->kind == JsonValue::Kind::kList;
    for (size_t i = 0; is_good && i < list->children.size(); ++i) {
      is_good = list->children[i].kind == kind && take(list->children[i]);
    }
    return is_good ? Status::Ok()
                   : Wrong(kInputKey, fmt::format("\"{}\" is no list of {}", name, KindName(kind)));
  }

  const JsonValue& object_;
};

bool IsDigest(const std::string& text) {
  return text.size() == kDigestDigits &&
         text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

Status ReadTokenizer(const InputReader& input, ModelCard* card) {
  const JsonValue* const value = input.Find("tokenizer");
  if (value == nullptr) {
    return Status::Ok();
  }
  if (value->kind != JsonValue::Kind::kObject) {
    return Wrong(kInputKey, "\"tokenizer\" is no object");
  }
  const InputReader tokenizer(value);
  int64_t tokens = 0;
  PS_TRY(tokenizer.Whole("tokens", 1, UINT32_MAX, &tokens));
  PS_TRY(tokenizer.Text("vocab_sha256", &card->vocabulary_sha256));
  PS_TRY(tokenizer.Text("merges_sha256", &card->merges_sha256));
  card->tokens = static_cast<uint32_t>(tokens);
  return IsDigest(card->vocabulary_sha256) && IsDigest(card->merges_sha256)
             ? Status::Ok()
             : Wrong(kInputKey, "\"tokenizer\": a SHA-256 has 64 digits 0 to f");
}

Status ReadShape(const InputReader& input, ModelCard* card) {
  constexpr int64_t kMax = INT32_MAX;
  std::string kind;
  PS_TRY(input.Text("kind", &kind));
  const auto* const named = std::ranges::find(kShapeNames, kind);
  if (named == kShapeNames.end()) {
    return Wrong(kInputKey, "\"kind\" is none of " + Join(kShapeNames));
  }
  card->input.kind = static_cast<ShapeKind>(named - kShapeNames.begin());
  PS_TRY(input.Whole("channels", 1, kMax, &card->input.channels));
  PS_TRY(input.Whole("height", 1, kMax, &card->input.height));
  PS_TRY(input.Whole("width", 1, kMax, &card->input.width));
  PS_TRY(input.Whole("vocabulary", 0, kMax, &card->input.vocabulary));
  PS_TRY(input.Whole("classes", 1, kMax, &card->classes));
  return input.Whole("labels", 1, kMax, &card->labels);
}

Status ReadNormals(const InputReader& input, ModelCard* card) {
  std::vector<double> means;
  std::vector<double> deviations;
  PS_TRY(input.Numbers("mean", &means));
  PS_TRY(input.Numbers("deviation", &deviations));
  // What is flat may lie in a row of one channel.
  const auto channels = static_cast<size_t>(card->input.is_flat() ? 1 : card->input.channels);
  const bool fits = means.size() == deviations.size() &&
                    (means.empty() || means.size() == channels) &&
                    std::ranges::all_of(deviations, [](double d) { return d > 0; });
  if (!fits) {
    return Wrong(
        kInputKey,
        fmt::format(
            "{} values of \"mean\" and {} of \"deviation\", which are above 0, for {} channels",
            means.size(),
            deviations.size(),
            channels));
  }
  for (size_t i = 0; i < means.size(); ++i) {
    card->normals.push_back({means[i], deviations[i]});
  }
  return Status::Ok();
}

/// Samples of a format have one kind of shape, by whose sizes they are read.
Status CheckKind(const ModelCard& card) {
  const Shape& in = card.input;
  const bool is_tokens = in.kind == ShapeKind::kTokens;
  const bool is_text = card.data.format == proto::DatasetFormat::kText;
  const bool may_be_tokens = is_text || card.data.format == proto::DatasetFormat::kNpy;
  if (in.kind == ShapeKind::kSequence || (is_tokens ? !may_be_tokens : is_text)) {
    return Wrong(
        kInputKey,
        fmt::format(
            "\"kind\" is {}, which data of their format do not have",
            kShapeNames[static_cast<size_t>(in.kind)]));
  }
  return !is_tokens || (in.channels == 1 && in.width == 1 && in.vocabulary > 0)
             ? Status::Ok()
             : Wrong(
                   kInputKey,
                   "tokens have 1 for \"channels\" and \"width\", and a \"vocabulary\" above 0");
}

/// Requires: layers, shape and columns of the card.
Status ReadTargets(const InputReader& input, ModelCard* card) {
  PS_TRY(input.Texts("label_columns", &card->label_columns));
  PS_TRY(input.Numbers("target_means", &card->target_means));
  const proto::Task task = card->task();
  const int64_t targets = task == proto::Task::kClasses ? 1 : card->classes;
  const bool is_table = card->data.format == proto::DatasetFormat::kCsv ||
                        card->data.format == proto::DatasetFormat::kTsv;
  if (is_table && (!card->input.is_flat() || card->labels != targets)) {
    return Wrong(
        kInputKey,
        fmt::format(
            "\"labels\" is {}, of inputs {}; a table has rows of numbers and {} of labels",
            card->labels,
            card->input.ToString(),
            Plural(static_cast<uint64_t>(targets), "column")));
  }
  const auto names = static_cast<int64_t>(card->label_columns.size());
  if (names != 0 && (names != targets || !is_table)) {
    return Wrong(
        kInputKey,
        fmt::format(
            "{} \"label_columns\" of {}",
            names,
            is_table ? Plural(static_cast<uint64_t>(targets), "column") : "data without columns"));
  }
  const int64_t means = task == proto::Task::kNumbers ? targets : 0;
  if (static_cast<int64_t>(card->target_means.size()) != means) {
    return Wrong(
        kInputKey,
        fmt::format(
            "{} \"target_means\" of {} numbers that the model learns",
            card->target_means.size(),
            means));
  }
  return Status::Ok();
}

Status ReadInput(const JsonValue& object, ModelCard* card) {
  const InputReader input(&object);
  PS_TRY(ReadShape(input, card));
  PS_TRY(CheckKind(*card));
  PS_TRY(ReadNormals(input, card));
  PS_TRY(input.Texts("class_names", &card->class_names));
  PS_TRY(input.Texts("columns", &card->columns));
  PS_TRY(ReadTargets(input, card));
  PS_TRY(ReadTokenizer(input, card));
  if (!card->class_names.empty() &&
      static_cast<int64_t>(card->class_names.size()) != card->classes) {
    return Wrong(
        kInputKey,
        fmt::format("{} class names of {} classes", card->class_names.size(), card->classes));
  }
  if (!card->columns.empty() &&
      static_cast<int64_t>(card->columns.size()) != card->input.channels) {
    return Wrong(
        kInputKey,
        fmt::format("{} columns for {} inputs", card->columns.size(), card->input.channels));
  }
  return Status::Ok();
}

}  // namespace

proto::Task ModelCard::task() const {
  proto::ModelConfig config;
  config.layers = layers;
  return proto::TaskOf(config);
}

std::string ModelCard::TargetName(int64_t output) const {
  return label_columns.empty() ? std::to_string(output)
                               : label_columns.at(static_cast<size_t>(output));
}

std::string ModelCard::ClassName(int64_t number) const {
  return class_names.empty() ? std::to_string(number) : class_names.at(static_cast<size_t>(number));
}

Metadata MetadataOf(const ModelCard& card) {
  proto::JobConfig job;
  job.name = "model";
  job.model.layers = card.layers;
  job.data = card.data;
  const Result<JsonValue> printed = ParseJson(proto::PrintJobConfig(job), "the job");
  return {
      {kVersionKey, kVersion},
      {kModelKey, SectionOf(*printed, kModelKey)},
      {kDataKey, SectionOf(*printed, kDataKey)},
      {kInputKey, InputJson(card)}};
}

Result<std::optional<ModelCard>> CardIn(const Metadata& metadata) {
  const auto version = metadata.find(kVersionKey);
  if (version == metadata.end()) {
    return std::optional<ModelCard>();
  }
  if (version->second != kVersion) {
    return Status::Unsupported(fmt::format(
        "metadata \"{}\" is {}, and this program reads version {}: take a newer one",
        kVersionKey,
        Quoted(version->second),
        kVersion));
  }
  // Each is read by itself first: together they are to be a job, and no text may reach beyond its
  // place there.
  PS_ASSIGN(const JsonValue model, ObjectAt(metadata, kModelKey));
  PS_ASSIGN(const JsonValue data, ObjectAt(metadata, kDataKey));
  PS_ASSIGN(const JsonValue input, ObjectAt(metadata, kInputKey));
  const Result<proto::JobConfig> job = proto::ParsePrintedJobConfig(fmt::format(
      R"({{"name":"model","model":{},"data":{},"workers":[]}})",
      metadata.at(kModelKey),
      metadata.at(kDataKey)));
  if (!job.ok()) {
    // The place is one in what was put together here, which nobody has.
    const std::string_view message = job.status().message();
    return Status::Corruption(fmt::format(
        "metadata \"{}\" and \"{}\" are no model and data of a job: {}",
        kModelKey,
        kDataKey,
        message.substr(message.find(": ") + 2)));
  }
  if (job->model.layers.empty()) {
    return Wrong(kModelKey, "no layers");
  }
  ModelCard card;
  card.layers = job->model.layers;
  card.data = job->data;
  PS_TRY(ReadInput(input, &card));
  const Result<Model> made = ModelOf(card);
  if (!made.ok()) {
    return Wrong(kModelKey, made.status().message());
  }
  return std::optional(std::move(card));
}

Result<Model> ModelOf(const ModelCard& card) {
  proto::ModelConfig config;
  config.layers = card.layers;
  return MakeModel(config, card.input, card.classes, card.labels);
}

}  // namespace ps::worker
