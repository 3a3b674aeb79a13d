#include "ps/proto/job_state.h"

#include <cstring>
#include <vector>

#include "ps/base/check.h"
#include "ps/base/crc32c.h"
#include "tests/fuzz/targets.h"

namespace ps::fuzz {
namespace {

// Of the header: magic, version, checksum, zero; each 4 bytes.
constexpr size_t kHeaderBytes = 16;
constexpr size_t kChecksumAt = 8;

}  // namespace

void FuzzJobState(std::span<const uint8_t> input) {
  const auto as_bytes = std::as_bytes(input);
  std::vector<std::byte> bytes(as_bytes.begin(), as_bytes.end());
  if (bytes.size() > kHeaderBytes) {
    const uint32_t crc = Crc32c(std::span<const std::byte>(bytes).subspan(kHeaderBytes));
    std::memcpy(bytes.data() + kChecksumAt, &crc, sizeof crc);
  }
  const Result<proto::JobState> state = proto::DecodeJobState(bytes);
  if (!state.ok()) {
    PS_CHECK(
        state.status().code() == StatusCode::kCorruption ||
        state.status().code() == StatusCode::kUnsupported)
        << state.status();
    return;
  }
  const std::vector<std::byte> saved = proto::EncodeJobState(*state);
  const Result<proto::JobState> again = proto::DecodeJobState(saved);
  PS_CHECK(again.ok()) << again.status();
  PS_CHECK(proto::EncodeJobState(*again) == saved) << "saving loses something";
}

}  // namespace ps::fuzz
