#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "ps/base/buffer.h"
#include "ps/base/status.h"
#include "ps/client/chunk_layout.h"
#include "ps/client/gradient_loan.h"
#include "ps/client/pull_intake.h"

namespace ps::client {

/// A gradient in one piece of memory, as ChunkLayout lays it out.
class FlatGradient final : public StepGradient {
 public:
  FlatGradient(Buffer memory, size_t tensors) : memory_(std::move(memory)), forms_(tensors) {}

  /// For the arithmetic, until it has told that a tensor is ready.
  std::span<float> floats() { return memory_.floats(); }

  std::span<const std::byte> Piece(
      const ChunkLayout::Chunk& chunk, uint32_t begin, uint32_t count) const override;

  Form FormOf(uint32_t tensor) const override { return forms_[tensor]; }

  /// The tensor stays f32. Thread: the arithmetic's, until it has told that the tensor is ready.
  void SetWhole(uint32_t tensor) { forms_[tensor] = Form::kWhole; }

  /// Nothing of the tensor travels. Thread: as SetWhole.
  void SetNothing(uint32_t tensor) { forms_[tensor] = Form::kNothing; }

  /// It is lent anew.
  void Begin() { forms_.assign(forms_.size(), Form::kAsAgreed); }

 private:
  Buffer memory_;
  std::vector<Form> forms_;  // by tensor, each by itself: others may be read meanwhile
};

/// What most hosts of a WorkerCore have: parameters and gradients in the host's memory, each in one
/// piece, as ChunkLayout lays them out. Thread: one; another one may Take, and any may give back a
/// loan.
class HostTensors {
 public:
  using MakeMemory = std::function<Result<Buffer>(size_t size_bytes)>;

  /// Room for parameters and for as many gradients as are lent at a time. Errors: `make`'s.
  static Result<HostTensors> Make(
      const ChunkLayout& layout, size_t gradients, MakeMemory make = MakePlainMemory);

  std::span<const float> parameters() const { return parameters_.floats(); }

  /// Copies new values to their place, which it returns; adds a difference to what is there.
  std::span<const float> Take(const PullIntake::Fresh& fresh);

  /// A gradient that nobody holds; its values are of some earlier step. The loan ends when the
  /// result and all copies of it are gone. When a push is repeated over a slow link, a transport
  /// may hold a gradient for longer than the core does. Then another one is made and kept, so the
  /// limit of the transport's queue limits how many there are. Errors: `make`'s.
  Result<std::shared_ptr<FlatGradient>> Lend();

  /// How many gradients there is memory for.
  size_t gradient_count() const { return gradients_.size(); }

 private:
  static Result<Buffer> MakePlainMemory(size_t size_bytes) { return Buffer(size_bytes); }

  HostTensors(Buffer parameters, size_t tensors, MakeMemory make)
      : parameters_(std::move(parameters)), tensor_count_(tensors), make_(std::move(make)) {}

  Status AddGradient();

  Buffer parameters_;
  size_t tensor_count_;
  std::vector<float> scratch_;  // a difference, decoded
  std::vector<std::shared_ptr<FlatGradient>> gradients_;
  MakeMemory make_;
};

}  // namespace ps::client
