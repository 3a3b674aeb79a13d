#include "worker/data/table/prepared_table.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <memory>
#include <optional>
#include <utility>

#include "ps/base/file.h"
#include "ps/base/text.h"
#include "ps/json/json_value.h"
#include "ps/json/json_writer.h"
#include "worker/data/data_listing.h"
#include "worker/data/npy/npy_file.h"
#include "worker/data/npy/npy_writer.h"
#include "worker/data/set_cache.h"
#include "worker/data/table/table_classes.h"
#include "worker/data/table/table_file.h"

namespace ps::worker {
namespace {

using Paths = std::vector<std::string>;

Result<Paths> TablesOf(const proto::DataConfig& config, const std::string& which, Paths* left_out) {
  const std::string end = config.format == proto::DatasetFormat::kTsv ? ".tsv" : ".csv";
  PS_ASSIGN(DataListing tables, ListDataFiles(config.directory, which, end));
  if (tables.paths.empty()) {
    return Status::NotFound(fmt::format(
        "{0}data.directory \"{1}\" has no {2}*{3} and no {2}*{3}.gz; the rows to train on are in "
        "train{3}, those for tests in test{3}",
        which == config.validation ? "data.validation is \"" + which + "\", and " : "",
        config.directory,
        which,
        end));
  }
  left_out->insert(left_out->end(), tables.left_out.begin(), tables.left_out.end());
  return std::move(tables.paths);
}

Result<TableRows> ReadRows(
    const proto::DataConfig& config,
    proto::Task task,
    const std::vector<std::string>& paths,
    LoadProgress* progress,
    TableColumns* columns) {
  TableRows rows;
  for (const std::string& path : paths) {
    PS_TRY(AppendTable(path, config, task, columns, &rows, progress));
  }
  if (rows.count == 0) {
    return Status::Corruption(fmt::format("{}: no rows", paths.front()));
  }
  return rows;
}

/// Puts the bits of numbers in the place of classes.
void TakeTargets(TableRows* rows) {
  rows->labels.reserve(rows->targets.size());
  for (const float target : rows->targets) {
    rows->labels.push_back(std::bit_cast<uint32_t>(target));
  }
}

/// The files of a set.
struct TablePaths {
  Paths train;
  Paths test;
  Paths validation;  // none: there is no such part

  Paths All() const {
    Paths all;
    for (const Paths* const paths : {&train, &test, &validation}) {
      all.insert(all.end(), paths->begin(), paths->end());
    }
    return all;
  }
};

Result<PreparedTable> ReadTables(
    const proto::DataConfig& config,
    proto::Task task,
    const TablePaths& paths,
    LoadProgress* progress) {
  for (const std::string& path : paths.All()) {
    progress->Expect(StoredBytes(path));
  }
  TableColumns columns;
  PS_ASSIGN(TableRows train, ReadRows(config, task, paths.train, progress, &columns));
  PS_ASSIGN(TableRows test, ReadRows(config, task, paths.test, progress, &columns));
  TableRows validation;
  if (!paths.validation.empty()) {
    PS_ASSIGN(validation, ReadRows(config, task, paths.validation, progress, &columns));
  }
  PreparedTable table;
  table.features = columns.features();
  if (task == proto::Task::kClasses) {
    PS_ASSIGN(const TableClasses classes, TableClasses::Of(train));
    PS_TRY(classes.Number(&train));
    PS_TRY(classes.Number(&test));
    PS_TRY(classes.Number(&validation));
    table.classes = classes.count();
    table.class_names = classes.Names();
  } else {
    TakeTargets(&train);
    TakeTargets(&test);
    TakeTargets(&validation);
    table.labels = columns.labels.size();
    table.classes = static_cast<int64_t>(table.labels);
  }
  const auto kept = [](TableRows rows) {
    return PreparedRows{
        SharedArray<float>(std::move(rows.values)), SharedArray<uint32_t>(std::move(rows.labels))};
  };
  table.train = kept(std::move(train));
  table.test = kept(std::move(test));
  table.validation = kept(std::move(validation));
  return table;
}

// What the cache has: four arrays, or six with a part for validation, and classes.json.

constexpr const char* kClassesFile = "/classes.json";

/// The rows of a table by what the cache calls them.
template <typename Table>
auto PartsOf(Table& table, bool has_validation) {
  std::vector<std::pair<const char*, decltype(&table.train)>> parts = {
      {"/train", &table.train}, {"/test", &table.test}};
  if (has_validation) {
    parts.emplace_back("/validation", &table.validation);
  }
  return parts;
}

Status WriteTable(const PreparedTable& table, const std::string& folder) {
  for (const auto& [name, rows] : PartsOf(table, table.validation.values.size() > 0)) {
    const std::string path = folder + name;
    PS_TRY(WriteNpy(
        path + "-values.npy",
        ElementType::kF32,
        table.features,
        std::as_bytes(rows->values.values())));
    PS_TRY(WriteNpy(
        path + "-labels.npy",
        ElementType::kU32,
        table.labels,
        std::as_bytes(rows->labels.values())));
  }
  JsonWriter json;
  json.BeginObject();
  json.Field("classes", table.classes);
  json.BeginList("names");
  for (const std::string& name : table.class_names) {
    json.Value(std::string_view(name));
  }
  json.EndList();
  json.EndObject();
  return WriteFileAtomically(folder + kClassesFile, std::move(json).Take());
}

/// `row`: elements of one, as the first array of its kind has it, or 0.
template <typename T>
Result<SharedArray<T>> OpenArray(const std::string& path, ElementType type, uint64_t* row) {
  PS_ASSIGN(NpyFile file, NpyFile::Open(path));
  if (file.type() != type || (*row != 0 && file.row_size() != *row)) {
    return Status::Corruption(fmt::format("{}: byte 0: it is none of the table's", path));
  }
  *row = file.row_size();
  auto kept = std::make_shared<const NpyFile>(std::move(file));
  const std::span<const T> values(
      reinterpret_cast<const T*>(kept->data().data()), kept->rows() * kept->row_size());
  return SharedArray<T>(std::move(kept), values);
}

Result<PreparedRows> OpenRows(const std::string& path, uint64_t* features, uint64_t* labels) {
  PreparedRows rows;
  PS_ASSIGN(rows.values, OpenArray<float>(path + "-values.npy", ElementType::kF32, features));
  PS_ASSIGN(rows.labels, OpenArray<uint32_t>(path + "-labels.npy", ElementType::kU32, labels));
  return rows.values.size() / *features == rows.labels.size() / *labels
             ? Result<PreparedRows>(std::move(rows))
             : Status::Corruption(fmt::format("{}: values and labels of other rows", path));
}

Status ReadClasses(const std::string& path, PreparedTable* table) {
  PS_ASSIGN(const std::string text, ReadFile(path, size_t{256} << 20));
  PS_ASSIGN(const JsonValue root, ParseJson(text, path));
  const JsonValue* const count = root.Find("classes");
  const JsonValue* const names = root.Find("names");
  if (count == nullptr || names == nullptr) {
    return Status::Corruption(fmt::format("{}: neither classes nor names", path));
  }
  const char* const end = count->text.data() + count->text.size();
  const std::from_chars_result read = std::from_chars(count->text.data(), end, table->classes);
  for (const JsonValue& name : names->children) {
    table->class_names.push_back(name.text);
  }
  const bool is_right = read.ec == std::errc() && read.ptr == end && table->classes > 0 &&
                        (table->class_names.empty() ||
                         table->class_names.size() == static_cast<size_t>(table->classes));
  return is_right ? Status::Ok()
                  : Status::Corruption(fmt::format("{}: another number of classes", path));
}

Result<PreparedTable> OpenTable(const std::string& folder, proto::Task task, bool has_validation) {
  PreparedTable table;
  table.labels = 0;
  const auto parts = PartsOf(table, has_validation);
  for (const auto& [name, rows] : parts) {
    PS_ASSIGN(*rows, OpenRows(folder + name, &table.features, &table.labels));
  }
  PS_TRY(ReadClasses(folder + kClassesFile, &table));
  if (task == proto::Task::kClasses) {
    for (const auto& [name, rows] : parts) {
      const std::span<const uint32_t> labels = rows->labels.values();
      if (std::ranges::any_of(labels, [&](uint32_t label) { return label >= table.classes; })) {
        return Status::Corruption(fmt::format("{}: a label is no class", folder));
      }
    }
  }
  return table;
}

/// All that decides what is made of the files.
std::string WhatIsMade(const proto::DataConfig& config, proto::Task task) {
  std::string what = fmt::format(
      "table of format {}, task {}, header {}, label {}",
      static_cast<int>(config.format),
      static_cast<int>(task),
      config.header,
      Quoted(config.label));
  for (const std::string& label : config.labels) {
    what += ", " + Quoted(label);
  }
  if (!config.validation.empty()) {
    what += ", with " + config.validation;
  }
  return what + " of " + Canonical(config.directory);
}

}  // namespace

Result<PreparedTable> PrepareTable(
    const proto::DataConfig& config, proto::Task task, LoadProgress* progress) {
  Paths left_out;
  TablePaths paths;
  PS_ASSIGN(paths.train, TablesOf(config, "train", &left_out));
  PS_ASSIGN(paths.test, TablesOf(config, "test", &left_out));
  const bool has_validation = !config.validation.empty();
  if (has_validation) {
    PS_ASSIGN(paths.validation, TablesOf(config, config.validation, &left_out));
  }
  const auto write = [&](const std::string& folder) -> Status {
    PS_ASSIGN(const PreparedTable table, ReadTables(config, task, paths, progress));
    return OfCache(WriteTable(table, folder));
  };
  PreparedTable table;
  PS_ASSIGN(
      const bool is_kept,
      OpenOrMake(
          config,
          WhatIsMade(config, task),
          paths.All(),
          progress,
          write,
          [&](const std::string& folder) -> Status {
            PS_ASSIGN(table, OpenTable(folder, task, has_validation));
            return Status::Ok();
          },
          &table.note));
  if (!is_kept) {
    std::string note = std::move(table.note);
    PS_ASSIGN(table, ReadTables(config, task, paths, progress));
    table.note = std::move(note);
  }
  table.left_out = std::move(left_out);
  return table;
}

}  // namespace ps::worker
