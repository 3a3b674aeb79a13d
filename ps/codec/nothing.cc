// Values that nobody wants, as of a frozen tensor's gradient.

#include <algorithm>

#include "ps/codec/codec.h"

namespace ps::codec {
namespace {

uint64_t Size(uint32_t /*share*/, uint64_t /*count*/) {
  return 0;
}

void Write(uint32_t /*share*/, const float*, float* /*residual*/, size_t, std::byte*) {}

Status Read(uint32_t /*share*/, const std::byte*, float* values, size_t count) {
  std::fill_n(values, count, 0.0F);
  return Status::Ok();
}

}  // namespace

const Codec kNothingCodec = {"nothing", false, &Size, &Write, &Read};

}  // namespace ps::codec
