// The saved form of a job's state: 16 bytes of header, then a FlatBuffer.
//
//   "SPJS" | version u32 | CRC-32C of the FlatBuffer u32 | 0 u32 | FlatBuffer
//
// The checksum finds damage; what is verified behind it keeps a state that was made up from
// reading outside the bytes, and from taking more memory than they have.

#include "ps/proto/state/job_state.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

#include "job_state_generated.h"
#include "job_state_v14_generated.h"
#include "ps/base/crc32c.h"
#include "ps/proto/codec/control_fields.h"
#include "ps/proto/codec/pack.h"
#include "ps/proto/codec/shard_fields.h"
#include "ps/proto/codec/state_fields.h"
#include "ps/proto/codec/unpack.h"
#include "ps/proto/codec/worker_fields.h"
#include "ps/proto/state/state_codec.h"

namespace ps::proto {
namespace {

static_assert(static_cast<int>(saved::JobPhase::MAX) == static_cast<int>(JobPhase::kFinished));
static_assert(static_cast<int>(saved::LeaveKind::MAX) == static_cast<int>(LeaveKind::kFailed));
static_assert(static_cast<int>(saved::FinishStep::MAX) == static_cast<int>(FinishStep::kDone));

constexpr uint32_t kMagic = 0x534a5053;  // "SPJS"
/// States from this version on are read: at least of the one before the present one.
constexpr uint32_t kOldestJobStateVersion = 14;
static_assert(kOldestJobStateVersion < kJobStateVersion);

struct Header {
  uint32_t magic = kMagic;
  uint32_t version = kJobStateVersion;
  uint32_t crc = 0;
  uint32_t zero = 0;
};

static_assert(std::endian::native == std::endian::little, "the header is little-endian");

/// `Saved`: the root table of the version that wrote the bytes.
template <typename Saved>
Result<JobState> DecodeAs(std::span<const std::byte> body, uint32_t parts) {
  std::vector<uint64_t> copy;
  const Saved* const root = codec::VerifiedRoot<Saved>(codec::Aligned(body, &copy));
  if (root == nullptr) {
    return Status::Corruption("it is a malformed FlatBuffer");
  }
  JobState state;
  codec::Decoder decoder(body.size());
  codec::Unpack(decoder, *root, state, parts);
  if (!decoder.ok()) {
    return Status::Corruption(std::string(decoder.status().message()));
  }
  return state;
}

/// The bytes of `parts`, behind `space` others.
std::vector<std::byte> EncodeBehind(size_t space, const JobState& state, uint32_t parts) {
  codec::Fbb builder(512);
  builder.Finish(codec::Pack<saved::JobState>(builder, state, parts));
  std::vector<std::byte> bytes(space + builder.GetSize());
  std::memcpy(bytes.data() + space, builder.GetBufferPointer(), builder.GetSize());
  return bytes;
}

/// Whether workers may make other checksums of the same data now: of much data they sum a part,
/// and older programs summed all of it (worker/data/data_sum.h).
bool IsSummedOtherwise(const RunData& data) {
  constexpr double kSummedInFull = 64U << 20;
  const DatasetFingerprint& print = data.fingerprint;
  const double values = static_cast<double>(print.channels) * print.height * print.width;
  const auto samples = static_cast<double>(std::max(print.train_count, print.test_count));
  return values * samples * sizeof(float) > kSummedInFull;
}

}  // namespace

std::vector<std::byte> EncodeParts(const JobState& state, uint32_t parts) {
  return EncodeBehind(0, state, parts);
}

Result<JobState> DecodeParts(std::span<const std::byte> body, uint32_t parts) {
  return DecodeAs<saved::JobState>(body, parts);
}

std::vector<std::byte> EncodeJobState(const JobState& state) {
  std::vector<std::byte> bytes = EncodeBehind(sizeof(Header), state, kEveryPart);
  Header header;
  header.crc = Crc32c(std::span(bytes).subspan(sizeof(Header)));
  std::memcpy(bytes.data(), &header, sizeof(Header));
  return bytes;
}

Result<JobState> DecodeJobState(std::span<const std::byte> bytes) {
  Header header;
  if (bytes.size() <= sizeof(Header)) {
    return Status::Corruption(fmt::format("{} bytes are no job state", bytes.size()));
  }
  std::memcpy(&header, bytes.data(), sizeof(Header));
  const std::span<const std::byte> body = bytes.subspan(sizeof(Header));
  if (header.magic != kMagic || header.zero != 0) {
    return Status::Corruption("these bytes are no job state");
  }
  if (header.version < kOldestJobStateVersion || header.version > kJobStateVersion) {
    return Status::Unsupported(fmt::format(
        "the job state has version {}; this program reads {} to {}; use a program that is {}",
        header.version,
        kOldestJobStateVersion,
        kJobStateVersion,
        header.version > kJobStateVersion ? "newer" : "older"));
  }
  if (header.crc != Crc32c(body)) {
    return Status::Corruption("the job state's checksum does not match");
  }
  constexpr uint32_t kLastWithOtherServers = 14;
  constexpr uint32_t kLastWithWholeSums = 15;
  Result<JobState> state = header.version <= kLastWithOtherServers
                               ? DecodeAs<saved::JobStateV14>(body, kEveryPart)
                               : DecodeParts(body, kEveryPart);
  if (header.version <= kLastWithWholeSums && state.ok() && state->data &&
      IsSummedOtherwise(*state->data)) {
    state->data.reset();  // the first worker says it anew
  }
  return std::move(state).Annotate("the job state");
}

}  // namespace ps::proto
