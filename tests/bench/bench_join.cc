// How long a worker loads data before it can begin, and what memory that takes: arrays and text of
// 10 GiB and a text of 1 GiB that is cut into tokens, with nothing of them in memory (cold) and
// again (warm). Beside it the time in which the same bytes are read once from the disk.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "ps/base/random.h"
#include "ps/base/unique_fd.h"
#include "tests/base/temporary_folder.h"
#include "tests/bench/harness.h"
#include "worker/data/dataset.h"
#include "worker/data/npy/npy_writer.h"

namespace ps::bench {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMib = uint64_t{1} << 20;

/// Memory that is this process's own, and no file's: mebibytes.
double OwnMib() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    if (word == "RssAnon:") {
      double kib = 0;
      status >> kib;
      return kib / 1024;
    }
  }
  return 0;
}

/// Nothing of these files is in memory any more. Requires: they are on the disk.
void DropFromMemory(const std::string& folder) {
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) {
      const UniqueFd fd(::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC));
      Require(::fsync(fd.get()) == 0, "data is on the disk");
      ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
    }
  }
}

/// Reads all files once.
void ReadAll(const std::string& folder) {
  std::vector<char> piece(kMib);
  for (const auto& entry : fs::directory_iterator(folder)) {
    const UniqueFd fd(::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC));
    while (::read(fd.get(), piece.data(), piece.size()) > 0) {
    }
  }
}

double SecondsOf(const std::function<void()>& work) {
  const double begin = WallSeconds();
  work();
  return WallSeconds() - begin;
}

/// Text of words, of which some are seldom.
std::string TextOf(uint64_t seed, size_t bytes) {
  Random random(seed);
  std::string text;
  while (text.size() < bytes) {
    const uint64_t letters = 2 + random.Below(8);
    for (uint64_t i = 0; i < letters; ++i) {
      text += static_cast<char>('a' + random.Below(1 + random.Below(26)));
    }
    text += random.Below(12) == 0 ? '\n' : ' ';
  }
  text.resize(bytes);
  return text;
}

void WriteText(const std::string& path, uint64_t mib) {
  std::ofstream file(path, std::ios::binary);
  const std::string piece = TextOf(1, 16 * kMib);
  for (uint64_t written = 0; written < mib * kMib; written += piece.size()) {
    file << piece.substr(0, std::min<uint64_t>(piece.size(), mib * kMib - written));
  }
  Require(file.good(), "a text was written");
}

void WriteArrays(const std::string& folder, const std::string& which, uint64_t mib) {
  constexpr uint64_t kPixels = uint64_t{3} * 32 * 32;
  const uint64_t rows = mib * kMib / kPixels;
  auto inputs = worker::NpyWriter::Create(
                    folder + "/" + which + "-inputs.npy", worker::ElementType::kU8, kPixels)
                    .value();
  auto labels =
      worker::NpyWriter::Create(folder + "/" + which + "-labels.npy", worker::ElementType::kI64, 0)
          .value();
  Random random(2);
  std::vector<std::byte> row(kPixels);
  for (uint64_t i = 0; i < rows; ++i) {
    const uint64_t at = random.Below(kPixels - 8);
    row[at] = static_cast<std::byte>(random.Below(256));
    Require(inputs.Append(row).ok(), "a picture was written");
    const uint64_t label = i % 10;
    Require(labels.Append(std::as_bytes(std::span(&label, 1))).ok(), "a label was written");
  }
  Require(inputs.Finish().ok() && labels.Finish().ok(), "arrays were written");
}

struct Scene {
  std::string name;
  uint64_t mib;
  proto::DataConfig config;
  std::function<void(const std::string& folder)> write;
};

void Measure(const Scene& scene, Table* table) {
  const TemporaryFolder folder(fs::current_path());
  const TemporaryFolder cache(fs::current_path());
  proto::DataConfig config = scene.config;
  config.directory = folder.path();
  config.cache = cache.path();
  scene.write(folder.path());
  const auto load = [&] {
    const auto data = worker::Dataset::Load(config);
    Require(data.ok(), "the data was loaded: " + data.status().ToString());
  };
  DropFromMemory(folder.path());
  const double read = SecondsOf([&] { ReadAll(folder.path()); });
  DropFromMemory(folder.path());
  const double own = OwnMib();
  double grown = 0;
  const double first = SecondsOf([&] {
    const auto data = worker::Dataset::Load(config);
    Require(data.ok(), "the data was loaded: " + data.status().ToString());
    grown = OwnMib() - own;
  });
  DropFromMemory(folder.path());
  DropFromMemory(cache.path());
  const double cold = SecondsOf(load);
  const double warm = SecondsOf(load);
  table->Add(
      {scene.name,
       Fixed(static_cast<double>(scene.mib) / 1024, 2),
       Fixed(read, 2),
       Fixed(first, 2),
       Fixed(cold, 2),
       Fixed(warm, 3),
       Fixed(std::max(grown, 0.0), 0)});
}

void Main(const BenchArguments& arguments) {
  const uint64_t large = arguments.is_tiny ? 100 : 10 * 1024;
  std::vector<Scene> scenes;
  proto::DataConfig arrays;
  arrays.format = proto::DatasetFormat::kNpy;
  scenes.push_back({"arrays of bytes", large, arrays, [large](const std::string& folder) {
                      WriteArrays(folder, "train", large);
                      WriteArrays(folder, "test", 1);
                    }});
  proto::DataConfig text;
  text.format = proto::DatasetFormat::kText;
  text.context = 256;
  scenes.push_back({"text, bytes", large, text, [large](const std::string& folder) {
                      WriteText(folder + "/a.txt", large);
                    }});
  text.tokenizer = "tests/data/bpe";
  const uint64_t cut = arguments.is_tiny ? 2 : 1024;
  scenes.push_back({"text, tokens", cut, text, [cut](const std::string& folder) {
                      WriteText(folder + "/a.txt", cut);
                    }});
  Table table({"data", "GiB", "read once, s", "first, s", "cold, s", "warm, s", "own MiB"});
  for (const Scene& scene : scenes) {
    if (arguments.Wants(scene.name)) {
      Measure(scene, &table);
    }
  }
  table.Print();
}

}  // namespace
}  // namespace ps::bench

int main(int argc, char** argv) {
  ps::bench::Main(ps::bench::ReadBenchArguments(argc, argv, {.has_rows = true}));
  return 0;
}
