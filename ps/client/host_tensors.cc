#include "ps/client/host_tensors.h"

#include <algorithm>

#include "ps/codec/difference.h"
#include "ps/proto/messages.h"

namespace ps::client {

std::span<const std::byte> FlatGradient::Piece(
    const ChunkLayout::Chunk& chunk, uint32_t begin, uint32_t count) const {
  const Form form = FormOf(TensorOf(chunk.key));
  if (form == Form::kNothing) {
    return memory_.bytes().first(0);
  }
  if (form == Form::kWhole) {
    return std::as_bytes(
        memory_.floats().subspan(static_cast<size_t>(chunk.offset) + begin, count));
  }
  return memory_.bytes().subspan(chunk.GradientAt(begin), chunk.encoding.SizeOf(count));
}

Result<HostTensors> HostTensors::Make(
    const ChunkLayout& layout, size_t gradients, MakeMemory make) {
  PS_ASSIGN(Buffer parameters, make(static_cast<size_t>(layout.element_count()) * sizeof(float)));
  HostTensors tensors(std::move(parameters), layout.tensor_count(), std::move(make));
  for (size_t i = 0; i < gradients; ++i) {
    PS_TRY(tensors.AddGradient());
  }
  return tensors;
}

std::span<const float> HostTensors::Take(const PullIntake::Fresh& fresh) {
  const std::span<float> place =
      parameters_.floats().subspan(static_cast<size_t>(fresh.offset), fresh.element_count);
  Status status;
  if (fresh.is_difference) {
    scratch_.resize(fresh.element_count);
    status = codec::AddDifference(fresh.encoding, fresh.bytes, place, scratch_);
  } else {
    status = codec::Decode(fresh.encoding, fresh.bytes, place);
  }
  PS_CHECK(status.ok()) << status;  // PullIntake has checked bytes that may be wrong
  return place;
}

Result<std::shared_ptr<FlatGradient>> HostTensors::Lend() {
  const auto is_here = [](const std::shared_ptr<FlatGradient>& gradient) {
    if (gradient.use_count() != 1) {
      return false;
    }
    // Who takes and drops a copy sees all that another thread did before it dropped its own.
    std::shared_ptr(gradient).reset();
    return true;
  };
  auto free = std::ranges::find_if(gradients_, is_here);
  if (free == gradients_.end()) {
    PS_TRY(AddGradient());
    free = gradients_.end() - 1;
  }
  (*free)->Begin();
  return *free;
}

Status HostTensors::AddGradient() {
  PS_ASSIGN(Buffer memory, make_(parameters_.size()));
  gradients_.push_back(std::make_shared<FlatGradient>(std::move(memory), tensor_count_));
  return Status::Ok();
}

}  // namespace ps::client
