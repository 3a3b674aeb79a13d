#include "ps/codec/encoding.h"

#include <fmt/core.h>

#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include "ps/base/check.h"
#include "ps/base/text.h"
#include "ps/codec/codec.h"

namespace ps::codec {
namespace {

/// By number.
constexpr std::array<const Codec*, kEncodingKindCount> kCodecs = {
    &kF32Codec, &kBf16Codec, &kInt8Codec, &kInt4Codec, &kTopkCodec, &kNothingCodec};

/// Those that people name: all but the last.
constexpr std::span<const Codec* const> kNamed = std::span(kCodecs).first(kCodecs.size() - 1);

const Codec& CodecOf(const Encoding& encoding) {
  return *kCodecs[static_cast<size_t>(encoding.kind)];
}

constexpr std::string_view kShareRule =
    "the share of the values that are sent, above 0 and up to 0.5, in steps of a millionth";

/// Millionths, or nothing.
std::optional<uint32_t> ParseShare(std::string_view text) {
  double share = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), share);
  if (error != std::errc() || end != text.data() + text.size() || !(share > 0 && share <= 0.5)) {
    return std::nullopt;
  }
  const double millionths = std::round(share * Encoding::kShareUnit);
  if (std::abs(share * Encoding::kShareUnit - millionths) > 1e-6 || millionths < 1) {
    return std::nullopt;
  }
  return static_cast<uint32_t>(millionths);
}

std::string UnknownText(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Codec* codec : kNamed) {
    names.push_back(codec->name);
  }
  const std::string nearest = NearestName(name, names);
  return fmt::format(
      "there is no encoding '{}'{}; there are {}",
      Printable(Clip(name, 40)),
      nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest),
      Join(EncodingNames()));
}

}  // namespace

uint64_t Encoding::SizeOf(uint64_t count) const {
  return CodecOf(*this).size(share, count);
}

std::string Encoding::ToText() const {
  const Codec& codec = CodecOf(*this);
  if (!codec.has_share) {
    return std::string(codec.name);
  }
  return fmt::format("{}:{}", codec.name, static_cast<double>(share) / kShareUnit);
}

Status CheckEncoding(const Encoding& encoding) {
  if (static_cast<int>(encoding.kind) >= kEncodingKindCount) {
    return Status::InvalidArgument(
        fmt::format("there is no encoding number {}", static_cast<int>(encoding.kind)));
  }
  const Codec& codec = CodecOf(encoding);
  const bool is_right = codec.has_share
                            ? encoding.share >= 1 && encoding.share <= Encoding::kShareMax
                            : encoding.share == 0;
  if (!is_right) {
    return Status::InvalidArgument(
        fmt::format("encoding {} with a share of {} millionths", codec.name, encoding.share));
  }
  return Status::Ok();
}

std::vector<std::string_view> EncodingNames() {
  std::vector<std::string_view> names;
  for (const Codec* codec : kNamed) {
    names.push_back(codec->has_share ? "topk:0.01" : codec->name);
  }
  return names;
}

Result<Encoding> ParseEncoding(std::string_view text) {
  const size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  for (size_t i = 0; i < kNamed.size(); ++i) {
    const Codec& codec = *kNamed[i];
    if (codec.name != name) {
      continue;
    }
    const auto kind = static_cast<EncodingKind>(i);
    if (!codec.has_share && colon != std::string_view::npos) {
      return Status::InvalidArgument(fmt::format("{} has nothing after its name", name));
    }
    if (!codec.has_share) {
      return Encoding{kind, 0};
    }
    if (colon == std::string_view::npos) {
      return Status::InvalidArgument(
          fmt::format("{} needs a share, as in {}:0.01: {}", name, name, kShareRule));
    }
    const std::optional<uint32_t> share = ParseShare(text.substr(colon + 1));
    if (!share) {
      return Status::InvalidArgument(
          fmt::format("'{}' is no share for {}: {}", text.substr(colon + 1), name, kShareRule));
    }
    return Encoding{kind, *share};
  }
  return Status::InvalidArgument(UnknownText(name));
}

void Encode(
    const Encoding& encoding,
    std::span<const float> values,
    std::span<float> residual,
    std::span<std::byte> out) {
  PS_CHECK(
      out.size() == encoding.SizeOf(values.size()) &&
      (residual.empty() || residual.size() == values.size()))
      << "room for another number of values";
  if (values.empty()) {
    return;
  }
  CodecOf(encoding).encode(
      encoding.share,
      values.data(),
      residual.empty() ? nullptr : residual.data(),
      values.size(),
      out.data());
}

Status Decode(const Encoding& encoding, std::span<const std::byte> bytes, std::span<float> values) {
  const uint64_t size = encoding.SizeOf(values.size());
  if (bytes.size() != size) {
    return Status::InvalidArgument(fmt::format(
        "{} values as {} are {} bytes, not {}",
        values.size(),
        encoding.ToText(),
        size,
        bytes.size()));
  }
  if (values.empty()) {
    return Status::Ok();
  }
  return CodecOf(encoding).decode(encoding.share, bytes.data(), values.data(), values.size());
}

}  // namespace ps::codec
