#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "ps/base/status.h"

namespace ps::checkpoint {

static_assert(std::endian::native == std::endian::little, "records are little-endian");

/// Appends numbers, little-endian and without padding.
class ByteWriter {
 public:
  template <typename T>
  void Put(T value) {
    static_assert(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>);
    const auto* bytes = reinterpret_cast<const std::byte*>(&value);
    out_.insert(out_.end(), bytes, bytes + sizeof(T));
  }

  void PutBytes(std::span<const std::byte> bytes) {
    out_.insert(out_.end(), bytes.begin(), bytes.end());
  }

  /// A u32 with the length in front.
  void PutText(std::string_view text) {
    Put(static_cast<uint32_t>(text.size()));
    PutBytes(std::as_bytes(std::span(text)));
  }

  /// Replaces what was put at `at`.
  template <typename T>
  void Overwrite(size_t at, T value) {
    std::memcpy(out_.data() + at, &value, sizeof(T));
  }

  void Reserve(size_t bytes) { out_.reserve(bytes); }

  std::span<const std::byte> bytes() const { return out_; }

  std::vector<std::byte> Take() && { return std::move(out_); }

 private:
  std::vector<std::byte> out_;
};

/// Reads what ByteWriter has put, from any bytes: past the end it gives zeros, and is_ok() is false
/// from then on.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <typename T>
  T Get() {
    static_assert(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>);
    T value{};
    const std::span<const std::byte> bytes = GetBytes(sizeof(T));
    if (!bytes.empty()) {
      std::memcpy(&value, bytes.data(), sizeof(T));
    }
    return value;
  }

  std::span<const std::byte> GetBytes(size_t size) {
    if (size > rest_.size()) {
      is_ok_ = false;
      rest_ = {};
      return {};
    }
    const std::span<const std::byte> bytes = rest_.first(size);
    rest_ = rest_.subspan(size);
    return bytes;
  }

  std::string GetText() {
    const std::span<const std::byte> bytes = GetBytes(Get<uint32_t>());
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  /// How many items follow, of at least `item_bytes` each; 0 when they can't be there.
  size_t GetCount(size_t item_bytes) {
    const uint32_t count = Get<uint32_t>();
    if (count > rest_.size() / item_bytes) {
      is_ok_ = false;
      return 0;
    }
    return count;
  }

  size_t left() const { return rest_.size(); }

  bool is_ok() const { return is_ok_; }

  /// Everything was there, and nothing else is.
  bool is_at_end() const { return is_ok_ && rest_.empty(); }

 private:
  std::span<const std::byte> rest_;
  bool is_ok_ = true;
};

}  // namespace ps::checkpoint
