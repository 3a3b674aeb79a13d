#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "flatbuffers/flatbuffers.h"
#include "ps/base/status.h"
#include "ps/proto/codec/field_list.h"

// The one codec of all messages and of the saved state: Pack turns a value into its table, Unpack a
// table into its value, by the list of its fields (field_list.h) and by the types that flatc has
// made of the table. pack.h and unpack.h are the templates; here is what they use.

namespace ps::proto::codec {

using Fbb = flatbuffers::FlatBufferBuilder;
template <typename W>
using Offset = flatbuffers::Offset<W>;

/// A type that flatc has made: of a table, else of a struct.
template <typename W>
concept IsTable = requires {
  typename W::Builder;
};

/// A view in a list of fields stands for a member that is packed as something else.
template <typename T>
concept IsFieldView = requires {
  typename T::Items;
};

/// Field number i of W. Read as a number, an enum, or a pointer; nested structs by value.
template <typename W, size_t i>
struct FieldOf {
  using Type = typename W::Traits::template FieldType<i>;

  static Type Get(const W& w) { return w.template get_field<i>(); }
};

template <typename W, size_t i>
using FieldType = typename FieldOf<W, i>::Type;

/// Where W has a field of this name; the number of its fields: it has none.
template <typename W>
consteval size_t FieldNumber(std::string_view name) {
  size_t i = 0;
  while (i < W::Traits::fields_number && name != W::Traits::field_names[i]) {
    ++i;
  }
  return i;
}

/// Whether fields of these names, in this order, are the fields of W.
template <typename W, typename... F>
consteval bool IsListOf() {
  size_t i = 0;
  return sizeof...(F) == W::Traits::fields_number &&
         ((FieldNumber<W>(F::kRules.name) == i++) && ...);
}

/// What the reader of a verified FlatBuffer, whose values may still be wrong, has found: the first
/// error. A hostile buffer can point at the same string or vector many times. Our encoder never
/// does, so the values read may not need more memory than the frame has bytes: Charge enforces it.
class Decoder {
 public:
  explicit Decoder(size_t buffer_bytes) : budget_(buffer_bytes) {}

  bool ok() const { return !is_failed_; }

  /// "workers[3].state has 300 bytes, over the limit of 256".
  Status status() const;

  /// The value that is read is wrong as a whole.
  void Fail(std::string_view why) { Fail("", why); }

  void Fail(std::string_view field, std::string_view why);

  /// The error is inside of `field`.
  void MoveInto(std::string_view field);

  /// Reads by `read`; says so of an error in it.
  template <typename F>
  void Inside(std::string_view field, F read) {
    const bool was_ok = ok();
    read();
    if (was_ok && !ok()) {
      MoveInto(field);
    }
  }

  std::string Text(const flatbuffers::String* text, const FieldRules& rules);
  bool Charge(size_t bytes, const char* field);
  /// FlatBuffers reads elements in place, and its verifier does not look at their alignment.
  bool ChargeItems(
      const uint8_t* items, size_t count, size_t bytes_each, size_t alignment, const char* field);

 private:
  size_t budget_;
  bool is_failed_ = false;
  std::string field_;
  std::string why_;
};

/// The bytes where FlatBuffers reads 64-bit numbers in place: where they are, or copied to `copy`.
std::span<const std::byte> Aligned(std::span<const std::byte> bytes, std::vector<uint64_t>* copy);

/// The table of bytes that nobody has looked at; null: they are malformed. Requires: Aligned.
template <typename W>
const W* VerifiedRoot(std::span<const std::byte> bytes) {
  constexpr flatbuffers::uoffset_t kDepthMax = 16;
  // A table takes 8 bytes at least with the offset that leads to it.
  const auto tables_max = static_cast<flatbuffers::uoffset_t>(bytes.size() / 8 + 1);
  const auto* const data = reinterpret_cast<const uint8_t*>(bytes.data());
  flatbuffers::Verifier verifier(data, bytes.size(), kDepthMax, tables_max);
  return verifier.VerifyBuffer<W>(nullptr) ? flatbuffers::GetRoot<W>(data) : nullptr;
}

/// At most `bytes_max` of the text, which the peer would refuse otherwise; cut between two
/// characters, with "..." at the end.
Offset<flatbuffers::String> MakeText(Fbb& b, const std::string& text, size_t bytes_max);

}  // namespace ps::proto::codec
