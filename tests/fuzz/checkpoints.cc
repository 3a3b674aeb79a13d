#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "checkpoint/chunk_codec.h"
#include "checkpoint/chunk_record.h"
#include "checkpoint/envelope.h"
#include "checkpoint/manifest.h"
#include "checkpoint/part.h"
#include "checkpoint/remote/index.h"
#include "ps/base/check.h"
#include "ps/base/crc32c.h"
#include "ps/http/url.h"
#include "ps/proto/state/shard_state.h"
#include "ps/store/s3_reply.h"
#include "tests/fuzz/targets.h"

namespace ps::fuzz {
namespace {

using checkpoint::kEnvelopeBytes;
using Bytes = std::vector<std::byte>;

constexpr size_t kIdAt = 8;
constexpr size_t kRecordChecksumAt = 16;

/// The same with a valid checksum over the first `covered` bytes, so that damage reaches what is
/// behind it.
Bytes PutRight(std::span<const uint8_t> input, size_t covered) {
  const auto as_bytes = std::as_bytes(input);
  Bytes bytes(as_bytes.begin(), as_bytes.end());
  if (bytes.size() >= kEnvelopeBytes) {
    const std::span<const std::byte> all(bytes.data(), std::min(bytes.size(), covered));
    const uint32_t crc = Crc32c(all.subspan(kEnvelopeBytes), Crc32c(all.first(kRecordChecksumAt)));
    std::memcpy(bytes.data() + kRecordChecksumAt, &crc, sizeof crc);
  }
  return bytes;
}

uint64_t NumberAt(const Bytes& bytes, size_t at) {
  uint64_t number = 0;
  if (bytes.size() >= at + sizeof number) {
    std::memcpy(&number, bytes.data() + at, sizeof number);
  }
  return number;
}

/// As text in XML.
std::string Escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    out += c == '&' ? "&amp;" : c == '<' ? "&lt;" : std::string(1, c);
  }
  return out;
}

std::string XmlOf(const store::S3Page& page) {
  std::string xml = "<ListBucketResult>";
  xml += page.is_url_encoded ? "<EncodingType>url</EncodingType>" : "";
  for (const store::S3Object& object : page.objects) {
    xml += "<Contents><Key>" + Escaped(object.key) + "</Key><Size>" + std::to_string(object.bytes) +
           "</Size><ETag>" + Escaped(object.etag) + "</ETag><LastModified>" +
           Escaped(object.modified) + "</LastModified></Contents>";
  }
  if (!page.next.empty()) {
    xml += "<IsTruncated>true</IsTruncated><NextContinuationToken>" + Escaped(page.next) +
           "</NextContinuationToken>";
  }
  return xml + "</ListBucketResult>";
}

bool IsRefusal(const Status& status) {
  return status.code() == StatusCode::kCorruption || status.code() == StatusCode::kUnsupported;
}

}  // namespace

bool FuzzManifest(std::span<const uint8_t> input) {
  const Bytes bytes = PutRight(input, input.size());
  const uint64_t id = NumberAt(bytes, kIdAt);
  const auto manifest = checkpoint::DecodeManifest(id, bytes);
  if (!manifest.ok()) {
    PS_CHECK(IsRefusal(manifest.status())) << manifest.status();
    return false;
  }
  const Bytes saved = checkpoint::EncodeManifest(*manifest);
  const auto again = checkpoint::DecodeManifest(id, saved);
  PS_CHECK(again.ok()) << again.status();
  PS_CHECK(checkpoint::EncodeManifest(*again) == saved) << "encoding loses something";
  return true;
}

bool FuzzPart(std::span<const uint8_t> input) {
  const Bytes bytes = PutRight(input, input.size());
  const uint64_t id = NumberAt(bytes, kIdAt);
  const auto part = checkpoint::DecodePart(id, bytes);
  if (!part.ok()) {
    PS_CHECK(IsRefusal(part.status())) << part.status();
    return false;
  }
  const Bytes saved = checkpoint::EncodePart(id, *part);
  const auto again = checkpoint::DecodePart(id, saved);
  PS_CHECK(again.ok()) << again.status();
  PS_CHECK(checkpoint::EncodePart(id, *again) == saved) << "encoding loses something";
  return true;
}

bool FuzzShardState(std::span<const uint8_t> input) {
  const auto state = proto::DecodeShardState(std::as_bytes(input));
  if (!state.ok()) {
    PS_CHECK(IsRefusal(state.status())) << state.status();
    return false;
  }
  const Bytes saved = proto::EncodeShardState(*state);
  const auto again = proto::DecodeShardState(saved);
  PS_CHECK(again.ok()) << again.status();
  PS_CHECK(proto::EncodeShardState(*again) == saved) << "encoding loses something";
  return true;
}

bool FuzzChunkRecord(std::span<const uint8_t> input) {
  const Bytes bytes = PutRight(input, checkpoint::kChunkHeadBytes);
  const ChunkKey key(NumberAt(bytes, kEnvelopeBytes));
  const auto view = checkpoint::ViewChunkRecord(key, NumberAt(bytes, kIdAt), bytes);
  if (!view.ok()) {
    PS_CHECK(IsRefusal(view.status())) << view.status();
    return false;
  }
  constexpr uint32_t kElementsMax = 4096;
  if (view->head.element_count > kElementsMax) {
    return false;
  }
  checkpoint::ChunkCodec codec;
  std::vector<float> target(view->head.element_count);
  for (size_t i = 0; i < view->head.buffer_count; ++i) {
    const Status decoded = codec.Decode(
        view->head.encodings[i], view->stored[i], std::as_writable_bytes(std::span(target)));
    PS_CHECK(decoded.ok() || decoded.code() == StatusCode::kCorruption) << decoded;
  }
  return true;
}

bool FuzzCopyIndex(std::span<const uint8_t> input) {
  const Bytes bytes = PutRight(input, input.size());
  const uint64_t id = NumberAt(bytes, kIdAt);
  const auto index = checkpoint::DecodeIndex(id, bytes);
  if (!index.ok()) {
    PS_CHECK(IsRefusal(index.status())) << index.status();
    return false;
  }
  const auto again = checkpoint::DecodeIndex(id, checkpoint::EncodeIndex(*index));
  PS_CHECK(again.ok() && *again == *index) << "encoding loses something";
  return true;
}

bool FuzzS3Reply(std::span<const uint8_t> input) {
  const auto body = std::as_bytes(input);
  store::ParseS3Error(body);
  const auto page = store::ParseS3Page(body);
  if (!page.ok()) {
    PS_CHECK(page.status().code() == StatusCode::kCorruption) << page.status();
    return false;
  }
  for (const store::S3Object& object : page->objects) {
    const std::string prefix = object.key + "/";
    const auto key = store::KeyBehind(prefix, PercentEncoded(prefix, true) + "x");
    PS_CHECK(key == "x") << "a prefix is not found in its encoded form";
  }
  const std::string xml = XmlOf(*page);
  const auto again = store::ParseS3Page(std::as_bytes(std::span(xml)));
  PS_CHECK(again.ok()) << again.status();
  PS_CHECK(again->is_url_encoded == page->is_url_encoded) << "the encoding differs";
  PS_CHECK(again->objects == page->objects && again->next == page->next) << "what was read differs";
  return true;
}

}  // namespace ps::fuzz
