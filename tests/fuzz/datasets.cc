#include <array>
#include <string>

#include "ps/base/check.h"
#include "tests/fuzz/memory_file.h"
#include "tests/fuzz/targets.h"
#include "worker/data/image_files.h"

namespace ps::fuzz {
namespace {

void CheckImages(const Result<worker::LabeledImages>& images) {
  if (!images.ok()) {
    PS_CHECK(images.status().code() == StatusCode::kCorruption) << images.status();
    return;
  }
  PS_CHECK(!images->labels.empty());
}

}  // namespace

void FuzzIdx(std::span<const uint8_t> input) {
  if (input.empty()) {
    return;
  }
  const size_t cut = (input.size() - 1) * input[0] / 256;
  input = input.subspan(1);
  const MemoryFile images(input.first(cut));
  const MemoryFile labels(input.subspan(cut));
  CheckImages(worker::ReadIdx(images.path(), labels.path(), 0));
  CheckImages(worker::ReadIdx(images.path(), labels.path(), 1));
}

void FuzzCifar10(std::span<const uint8_t> input) {
  const MemoryFile file(input);
  const std::array<std::string, 1> paths = {file.path()};
  CheckImages(worker::ReadCifar10(paths, 0));
  CheckImages(worker::ReadCifar10(paths, 1));
}

}  // namespace ps::fuzz
