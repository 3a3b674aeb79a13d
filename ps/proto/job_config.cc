// Text -> tree -> overrides -> schema check -> values -> cross-field rules, and values -> text.

#include "ps/proto/job_config.h"

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>

#include "ps/proto/job_check.h"
#include "ps/proto/job_fields.h"
#include "ps/proto/job_schema.h"
#include "ps/proto/json_dom.h"
#include "ps/proto/json_writer.h"

namespace ps::proto {
namespace {

constexpr size_t kFileBytesMax = 1U << 20;

template <typename T>
struct IsVector : std::false_type {};

template <typename T>
struct IsVector<std::vector<T>> : std::true_type {};

template <typename T>
concept Table = requires(T& value) {
  VisitFields(value, [](const char*, auto&) {});
};

// ---- Reading. The tree has passed CheckSchema, so whatever is there fits.

template <Table T>
void ReadTable(const JsonValue* value, const reflection::Object& table, T& out);

template <typename T>
T ParseNumber(std::string_view text) {
  T number{};
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

/// One value, or its default where `value` is null.
template <typename T>
void ReadOne(const JsonValue* value, const reflection::Field& field, T& out) {
  if constexpr (Table<T>) {
    ReadTable(value, TableOf(field), out);
  } else if constexpr (std::is_same_v<T, std::string>) {
    out = value != nullptr ? value->text : Attribute(field, "text");
  } else if constexpr (std::is_same_v<T, bool>) {
    out = value != nullptr ? value->text == "true" : field.default_integer() != 0;
  } else if constexpr (std::is_enum_v<T>) {
    out = static_cast<T>(
        value != nullptr ? *EnumValue(*EnumOf(field), value->text) : field.default_integer());
  } else if constexpr (std::is_floating_point_v<T>) {
    out = value != nullptr ? ParseNumber<T>(value->text) : static_cast<T>(field.default_real());
  } else {
    out = value != nullptr ? ParseNumber<T>(value->text) : static_cast<T>(field.default_integer());
  }
}

template <Table T>
void ReadTable(const JsonValue* value, const reflection::Object& table, T& out) {
  size_t visited = 0;
  VisitFields(out, [&]<typename M>(const char* name, M& member) {
    ++visited;
    const reflection::Field& field = FieldNamed(table, name);
    const JsonValue* child = value == nullptr ? nullptr : value->Find(name);
    if constexpr (IsVector<M>::value) {
      member.clear();
      if (child != nullptr) {
        for (const JsonValue& item : child->children) {
          ReadOne(&item, field, member.emplace_back());
        }
      }
    } else {
      ReadOne(child, field, member);
    }
  });
  PS_CHECK(visited == table.fields()->size()) << "job_fields.h lacks a field";
}

// ---- Writing.

template <typename M>
bool IsDefault(const M& member, const reflection::Field& field) {
  if constexpr (IsVector<M>::value) {
    return member.empty();
  } else {
    M otherwise;
    ReadOne(nullptr, field, otherwise);
    return member == otherwise;
  }
}

template <Table T>
void WriteTable(
    JsonWriter& json, const T& table_value, const reflection::Object& table, bool is_item);

template <typename T>
void WriteOne(JsonWriter& json, const T& value, const reflection::Field& field, bool is_item) {
  if constexpr (Table<T>) {
    WriteTable(json, value, TableOf(field), is_item);
  } else if constexpr (std::is_same_v<T, std::string>) {
    json.Text(value);
  } else if constexpr (std::is_same_v<T, bool>) {
    json.Bool(value);
  } else if constexpr (std::is_enum_v<T>) {
    json.Text(EnumName(*EnumOf(field), static_cast<int64_t>(value)));
  } else if constexpr (std::is_floating_point_v<T>) {
    json.Float(value);
  } else if constexpr (std::is_signed_v<T>) {
    json.Int(value);
  } else {
    json.Uint(value);
  }
}

/// Everything, so that the reader sees what is in force; but items of lists (layers, workers,
/// faults) only with what is special about them.
template <Table T>
void WriteTable(JsonWriter& json, const T& value, const reflection::Object& table, bool is_item) {
  json.BeginObject();
  VisitFields(value, [&]<typename M>(const char* name, const M& member) {
    const reflection::Field& field = FieldNamed(table, name);
    if constexpr (std::is_same_v<M, std::string>) {
      if (member.empty()) {
        return;
      }
    }
    if (is_item && !std::is_enum_v<M> && IsDefault(member, field)) {
      return;
    }
    json.Key(name);
    if constexpr (IsVector<M>::value) {
      json.BeginList();
      for (const auto& item : member) {
        WriteOne(json, item, field, true);
      }
      json.EndList();
    } else {
      WriteOne(json, member, field, is_item);
    }
  });
  json.EndObject();
}

/// ssp, bsp and clip_norm need the whole step before anything moves on; to ask for overlap with
/// them is an error, not to mention it is not.
void ResolveOverlap(JobConfig& config) {
  config.train.overlap =
      config.train.overlap && config.train.mode == Mode::kAsync && config.optimizer.clip_norm == 0;
}

Result<std::string> ReadFile(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return Status::InvalidArgument(path + ":1:1: this is a directory; allowed: a job file");
  }
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(
      std::fopen(path.c_str(), "rb"), &std::fclose);
  if (file == nullptr) {
    const std::string why = std::generic_category().message(errno);
    return errno == ENOENT ? Status::NotFound(
                                 path +
                                 ": no such file; give the path of a job file, "
                                 "for example one in configs/")
                           : Status::Io(path + ": " + why);
  }
  std::string text(kFileBytesMax + 1, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  if (std::ferror(file.get()) != 0) {
    return Status::Io(path + ": cannot be read");
  }
  if (text.size() > kFileBytesMax) {
    return Status::InvalidArgument(path + ":1:1: the file is too long; allowed: 1 MiB");
  }
  return text;
}

}  // namespace

Result<JobConfig> ParseJobConfig(
    std::string_view text,
    const std::string& file_name,
    const std::vector<ConfigOverride>& overrides) {
  PS_ASSIGN(JsonValue root, ParseJson(text, file_name));
  for (size_t i = 0; i < overrides.size(); ++i) {
    PS_TRY(ApplyOverride(root, overrides[i], static_cast<int>(i) + 1));
  }
  PS_TRY(CheckSchema(root, file_name));
  JobConfig config;
  ReadTable(&root, JobTable(), config);
  PS_TRY(CheckRules(config, root, file_name));
  ResolveOverlap(config);
  return config;
}

Result<JobConfig> LoadJobConfig(
    const std::string& path, const std::vector<ConfigOverride>& overrides) {
  PS_ASSIGN(const std::string text, ReadFile(path));
  return ParseJobConfig(text, path, overrides);
}

std::string PrintJobConfig(const JobConfig& config) {
  JobConfig resolved = config;
  ResolveOverlap(resolved);
  JsonWriter json;
  WriteTable(json, resolved, JobTable(), false);
  return std::move(json).Take();
}

}  // namespace ps::proto
