#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "ps/base/check.h"
#include "tests/fuzz/memory_file.h"
#include "tests/fuzz/targets.h"
#include "worker/data/image_files.h"
#include "worker/data/npy/npy_file.h"
#include "worker/data/store/fetch_journal.h"
#include "worker/data/store/stored_names.h"
#include "worker/data/table/table_file.h"
#include "worker/data/text/bpe.h"
#include "worker/data/text/text_files.h"

namespace ps::fuzz {
namespace {

bool CheckImages(const Result<worker::LabeledImages>& images) {
  if (!images.ok()) {
    PS_CHECK(images.status().code() == StatusCode::kCorruption) << images.status();
    return false;
  }
  PS_CHECK(!images->labels.empty());
  return true;
}

}  // namespace

bool FuzzIdx(std::span<const uint8_t> input) {
  if (input.empty()) {
    return false;
  }
  const size_t cut = (input.size() - 1) * input[0] / 256;
  input = input.subspan(1);
  const MemoryFile images(input.first(cut));
  const MemoryFile labels(input.subspan(cut));
  const bool all = CheckImages(worker::ReadIdx(images.path(), labels.path(), 0));
  return CheckImages(worker::ReadIdx(images.path(), labels.path(), 1)) && all;
}

bool FuzzCifar(std::span<const uint8_t> input) {
  const MemoryFile file(input);
  const std::array<std::string, 1> paths = {file.path()};
  bool is_taken = false;
  for (const worker::CifarKind& kind : {worker::kCifar10, worker::kCifar100}) {
    for (const uint64_t samples_max : {0U, 1U}) {
      is_taken |= CheckImages(worker::ReadCifar(kind, paths, samples_max));
    }
  }
  return is_taken;
}

bool FuzzText(std::span<const uint8_t> input) {
  constexpr uint32_t kAscii = 128;
  const MemoryFile file(input);
  std::vector<uint8_t> text;
  const Status status = worker::AppendText(file.path(), kAscii, &text);
  PS_CHECK(status.ok() || status.code() == StatusCode::kCorruption) << status;
  PS_CHECK(!status.ok() || std::ranges::all_of(text, [](uint8_t b) { return b < kAscii; }));
  return status.ok();
}

bool FuzzBpe(std::span<const uint8_t> input) {
  std::array<std::string_view, 3> parts;  // the last has what is left
  std::string_view rest = Text(input);
  for (std::string_view& part : parts) {
    const size_t end =
        &part == &parts.back() ? rest.size() : std::min(rest.find('\0'), rest.size());
    part = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  Result<worker::Bpe> bpe = worker::Bpe::Parse(parts[0], "vocab.json", parts[1], "merges.txt");
  if (!bpe.ok()) {
    PS_CHECK(bpe.status().code() == StatusCode::kInvalidArgument) << bpe.status();
    PS_CHECK(bpe.status().message().find('\n') == std::string_view::npos) << bpe.status();
    return false;
  }
  std::vector<uint32_t> tokens;
  bpe->Encode(parts[2], &tokens);
  std::string back;
  for (const uint32_t token : tokens) {
    PS_CHECK(token < bpe->size());
    back += bpe->BytesOf(token);
  }
  PS_CHECK(back == parts[2]);
  return true;
}

bool FuzzNpy(std::span<const uint8_t> input) {
  const MemoryFile file(input);
  const Result<worker::NpyFile> array = worker::NpyFile::Open(file.path());
  if (!array.ok()) {
    PS_CHECK(array.status().code() == StatusCode::kCorruption) << array.status();
    PS_CHECK(array.status().message().find('\n') == std::string_view::npos) << array.status();
    return false;
  }
  const uint64_t last = array->rows() * array->row_size() - 1;
  if (array->type() == worker::ElementType::kF32) {
    static_cast<void>(array->FloatAt(last));
  } else {
    static_cast<void>(array->WholeAt(last));
  }
  return true;
}

bool FuzzTable(std::span<const uint8_t> input) {
  if (input.empty()) {
    return false;
  }
  proto::DataConfig config;
  config.format = (input[0] & 1) != 0 ? proto::DatasetFormat::kTsv : proto::DatasetFormat::kCsv;
  config.header = (input[0] & 2) != 0;
  config.label = (input[0] & 4) != 0 ? "0" : "";
  const auto task = (input[0] & 8) != 0 ? proto::Task::kNumbers : proto::Task::kClasses;
  const MemoryFile file(input.subspan(1));
  worker::TableColumns columns;
  worker::TableRows rows;
  for (int part = 1; part <= 2; ++part) {  // the second has the columns of the first
    const Status status = worker::AppendTable(file.path(), config, task, &columns, &rows);
    if (!status.ok()) {
      PS_CHECK(status.code() == StatusCode::kCorruption) << status;
      PS_CHECK(status.message().find('\n') == std::string_view::npos) << status;
      PS_CHECK(part == 1) << status;
      return false;
    }
    PS_CHECK(rows.count == 0 || rows.values.size() == rows.count * columns.features());
    PS_CHECK(rows.count == rows.labels.size() + rows.targets.size());
    PS_CHECK(std::ranges::all_of(rows.values, [](float value) { return std::isfinite(value); }));
    PS_CHECK(std::ranges::all_of(
        rows.labels, [&](uint32_t label) { return label < rows.label_names.size(); }));
  }
  return true;
}

bool FuzzStoredData(std::span<const uint8_t> input) {
  const std::string text(input.begin(), input.end());
  const std::vector<worker::FetchedRange> ranges = worker::ParseFetchJournal(text);
  std::string written;
  for (const worker::FetchedRange& range : ranges) {
    written += worker::JournalLine(range);
  }
  PS_CHECK(worker::ParseFetchJournal(written) == ranges) << "what was read differs";
  std::vector<store::StoredObject> objects;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    objects.push_back({.name = line});
    static_cast<void>(worker::CouldBeData(proto::DatasetFormat::kPictures, line));
    static_cast<void>(worker::CouldBeData(proto::DatasetFormat::kText, line, "val"));
  }
  std::sort(
      objects.begin(), objects.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  if (!worker::CheckNames(objects).ok()) {
    return !ranges.empty();
  }
  for (const store::StoredObject& object : objects) {
    const std::string path = "/root/" + object.name;
    PS_CHECK(std::filesystem::path(path).lexically_normal().string() == path)
        << "a name leads out of its folder";
  }
  return true;
}

}  // namespace ps::fuzz
