#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <utility>

namespace ps {

/// Alignment of every tensor buffer: one cache line, one AVX-512 register.
inline constexpr size_t kBufferAlignment = 64;

/// Fixed-size aligned bytes. Not zeroed. Moves, does not copy; a moved-from buffer is empty. Large
/// ones lie in huge pages where the machine leaves that to programs: to fill them takes fewer
/// faults.
class Buffer {
 public:
  Buffer() = default;

  explicit Buffer(size_t size_bytes)
      : data_(Allocate(size_bytes), Deleter{nullptr, AlignmentOf(size_bytes)}), size_(size_bytes) {}

  /// Memory of another kind, such as a device's driver has pinned; `owner` keeps it.
  Buffer(std::byte* data, size_t size_bytes, std::shared_ptr<void> owner)
      : data_(data, Deleter{std::move(owner), {}}), size_(size_bytes) {}

  Buffer(Buffer&& other) noexcept
      : data_(std::move(other.data_)), size_(std::exchange(other.size_, 0)) {}

  Buffer& operator=(Buffer&& other) noexcept {
    data_ = std::move(other.data_);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }

  size_t size() const { return size_; }

  std::byte* data() { return data_.get(); }

  const std::byte* data() const { return data_.get(); }

  std::span<std::byte> bytes() { return {data_.get(), size_}; }

  std::span<const std::byte> bytes() const { return {data_.get(), size_}; }

  /// The bytes as floats; a tail shorter than a float is left out.
  std::span<float> floats() {
    return {reinterpret_cast<float*>(data_.get()), size_ / sizeof(float)};
  }

  std::span<const float> floats() const {
    return {reinterpret_cast<const float*>(data_.get()), size_ / sizeof(float)};
  }

 private:
  struct Deleter {
    void operator()(std::byte* p) const {
      if (owner == nullptr) {
        ::operator delete[](p, alignment);
      }
    }

    std::shared_ptr<void> owner;  // nullptr: the buffer's own memory
    std::align_val_t alignment;   // of its own memory
  };

  static std::align_val_t AlignmentOf(size_t size_bytes);
  static std::byte* Allocate(size_t size_bytes);

  std::unique_ptr<std::byte[], Deleter> data_;
  size_t size_ = 0;
};

}  // namespace ps
