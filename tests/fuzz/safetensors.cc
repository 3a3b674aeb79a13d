#include "checkpoint/model/safetensors.h"

#include <string>
#include <vector>

#include "ps/base/check.h"
#include "tests/fuzz/memory_file.h"
#include "tests/fuzz/targets.h"
#include "worker/use/model_card.h"

namespace ps::fuzz {
namespace {

using checkpoint::SafetensorsHeader;
using checkpoint::StoredTensor;

void CheckSame(const SafetensorsHeader& a, const SafetensorsHeader& b) {
  PS_CHECK(a.tensors.size() == b.tensors.size());
  for (size_t i = 0; i < a.tensors.size(); ++i) {
    const StoredTensor& x = a.tensors[i];
    const StoredTensor& y = b.tensors[i];
    PS_CHECK(x.type == y.type && x.shape == y.shape && x.begin == y.begin);
  }
}

}  // namespace

std::vector<uint8_t> SafetensorsFileOf(std::span<const uint8_t> json, uint64_t data_bytes) {
  std::vector<uint8_t> file;
  for (int i = 0; i < 8; ++i) {
    file.push_back(static_cast<uint8_t>(json.size() >> (8 * i)));
  }
  file.insert(file.end(), json.begin(), json.end());
  file.resize(file.size() + data_bytes, 0x3f);
  return file;
}

bool FuzzSafetensors(std::span<const uint8_t> input) {
  if (input.size() < 2) {
    return false;
  }
  const uint64_t data_bytes = input[0] + 256U * input[1];
  const MemoryFile file(SafetensorsFileOf(input.subspan(2), data_bytes));
  const auto reader = checkpoint::SafetensorsReader::Open(file.path());
  if (!reader.ok()) {
    const StatusCode code = reader.status().code();
    PS_CHECK(code == StatusCode::kCorruption || code == StatusCode::kUnsupported)
        << reader.status();
    return false;
  }
  const std::string printed = checkpoint::PrintSafetensorsHeader(reader->header());
  const auto again =
      checkpoint::ParseSafetensorsHeader(std::string_view(printed).substr(8), data_bytes);
  // Names that are no UTF-8 may become the same.
  PS_CHECK(again.ok() || printed.find("\xef\xbf\xbd") != std::string::npos) << again.status();
  if (again.ok()) {
    CheckSame(reader->header(), *again);
  }
  for (const StoredTensor& tensor : reader->header().tensors) {
    std::vector<float> values(static_cast<size_t>(tensor.element_count));
    PS_CHECK(reader->Read(tensor, 0, values).ok());
  }
  const auto card = worker::CardIn(reader->header().metadata);
  if (!card.ok()) {
    const StatusCode code = card.status().code();
    PS_CHECK(code == StatusCode::kCorruption || code == StatusCode::kUnsupported) << card.status();
  } else if (card->has_value()) {
    const auto written = worker::CardIn(worker::MetadataOf(**card));
    PS_CHECK(written.ok() && written->has_value()) << written.status();
  }
  return true;
}

}  // namespace ps::fuzz
