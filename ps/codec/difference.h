#pragma once

#include <cstddef>
#include <span>

#include "ps/base/status.h"
#include "ps/codec/encoding.h"

namespace ps::codec {

// Values that two sides hold with the same bits, moved by differences in few bits. Both sides do
// the same arithmetic, so they go on holding the same; what an encoding loses of a difference is
// therefore in the next one. A difference that is added to other values than it was made of gives
// nonsense: who sends it has to say what it is to.
//
// All spans of floats are of one length, `out` and `bytes` of encoding.SizeOf of that.
// Requires: CheckEncoding is Ok. Thread: any. Allocates nothing.

/// Writes what moves `held` towards `values`, and moves `held` so. `scratch` is overwritten.
/// False when something would not be finite: then `held` is as before, and `out` has no meaning.
bool EncodeDifference(
    const Encoding& encoding,
    std::span<const float> values,
    std::span<float> held,
    std::span<float> scratch,
    std::span<std::byte> out);

/// Whether the bytes, from anywhere, are a difference: Decode takes them, and all is finite.
/// `scratch` is overwritten. Errors: kInvalidArgument.
Status CheckDifference(
    const Encoding& encoding, std::span<const std::byte> bytes, std::span<float> scratch);

/// Moves `held` as EncodeDifference did. `scratch` is overwritten. Errors: as Decode; `held` is
/// as before then.
Status AddDifference(
    const Encoding& encoding,
    std::span<const std::byte> bytes,
    std::span<float> held,
    std::span<float> scratch);

}  // namespace ps::codec
