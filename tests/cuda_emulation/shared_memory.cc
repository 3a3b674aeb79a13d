#include "tests/cuda_emulation/shared_memory.h"

#include <cstdint>
#include <cstring>
#include <utility>

#include "tests/cuda_emulation/block.h"

namespace ps::cuda_emulation {
namespace {

constexpr size_t kRowBytes = 16;     // of a square, and of a copy
constexpr size_t kBanksBytes = 128;  // all banks once

uint64_t bank_conflicts = 0;

}  // namespace

void LoadMatrices(
    const void* row,
    bool is_transposed,
    uint32_t (&squares)[4],
    const std::source_location& where) {
  RequireAligned(row, kRowBytes, "ldmatrix", where);
  LaneWords words{};
  std::memcpy(words.data(), row, kRowBytes);
  words[2] = reinterpret_cast<uintptr_t>(row) % kBanksBytes / kRowBytes;
  const LaneValues& values = MeetWarp(~0U, words, where);
  const unsigned group = Lane() / 4;
  const unsigned member = Lane() % 4;
  const auto value = [&values](unsigned square, unsigned of_row, unsigned column) {
    const uint64_t four = values[8 * square + of_row][column / 4];
    return static_cast<uint32_t>(four >> (16 * (column % 4)) & 0xffffU);
  };
  for (unsigned i = 0; i < 4; ++i) {
    squares[i] = is_transposed
                     ? value(i, 2 * member, group) | value(i, 2 * member + 1, group) << 16U
                     : value(i, group, 2 * member) | value(i, group, 2 * member + 1) << 16U;
  }
  // The rows of a square come at once if each is in other banks.
  if (Lane() % 8 == 0) {
    unsigned met = 0;
    for (unsigned i = 0; i < 8; ++i) {
      const unsigned banks = 1U << values[Lane() + i][2];
      bank_conflicts += (met & banks) != 0 ? 1 : 0;
      met |= banks;
    }
  }
}

uint64_t TakeBankConflicts() {
  return std::exchange(bank_conflicts, 0);
}

void CopyAsync16(
    void* shared, const void* global, bool is_there, const std::source_location& where) {
  RequireAligned(shared, kRowBytes, "cp.async", where);
  RequireAligned(global, kRowBytes, "cp.async", where);
  std::memset(shared, kNanByte, kRowBytes);
  ThreadCopies& copies = CopiesOfThread();
  copies.pending.push_back(
      {static_cast<std::byte*>(shared),
       is_there ? static_cast<const std::byte*>(global) : nullptr,
       copies.group});
}

void CommitCopies() {
  ++CopiesOfThread().group;
}

void WaitForCopies(unsigned left) {
  ThreadCopies& copies = CopiesOfThread();
  auto copy = copies.pending.begin();
  for (; copy != copies.pending.end() && copy->group + left < copies.group; ++copy) {
    if (copy->from == nullptr) {
      std::memset(copy->to, 0, kRowBytes);
    } else {
      std::memcpy(copy->to, copy->from, kRowBytes);
    }
  }
  copies.pending.erase(copies.pending.begin(), copy);
}

}  // namespace ps::cuda_emulation
