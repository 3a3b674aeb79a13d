#include "worker/data/npy/npy_writer.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "ps/base/check.h"
#include "ps/base/file.h"

namespace ps::worker {

Result<NpyWriter> NpyWriter::Create(const std::string& path, ElementType type, uint64_t row_size) {
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd.is_open()) {
    return IoError("cannot create", path);
  }
  NpyWriter writer(std::move(fd), path, type, row_size);
  PS_TRY(writer.WriteHeader(0));
  return writer;
}

Status NpyWriter::Append(std::span<const std::byte> rows) {
  PS_TRY(WriteAll(
      fd_.get(), std::string_view(reinterpret_cast<const char*>(rows.data()), rows.size()), path_));
  bytes_ += rows.size();
  return Status::Ok();
}

Status NpyWriter::Finish() {
  const uint64_t row_bytes = std::max<uint64_t>(row_size_, 1) * ElementSize(type_);
  PS_CHECK(bytes_ % row_bytes == 0) << "a part of a row";
  if (::lseek(fd_.get(), 0, SEEK_SET) != 0) {
    return IoError("cannot write", path_);
  }
  PS_TRY(WriteHeader(bytes_ / row_bytes));
  return ::fsync(fd_.get()) == 0 ? Status::Ok() : IoError("cannot write", path_);
}

Status NpyWriter::WriteHeader(uint64_t rows) {
  constexpr size_t kBeforeText = 10;  // magic, version 1.0, u16 length
  std::string text = fmt::format(
      "{{'descr': '{}', 'fortran_order': False, 'shape': ({},{}), }}",
      ElementDescr(type_),
      rows,
      row_size_ == 0 ? "" : fmt::format(" {}", row_size_));
  constexpr size_t kTextBytes = kHeaderBytes - kBeforeText;
  PS_CHECK(text.size() < kTextBytes);
  text.resize(kTextBytes - 1, ' ');
  text += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(kTextBytes & 0xff);
  header += static_cast<char>(kTextBytes >> 8);
  return WriteAll(fd_.get(), header + text, path_);
}

Status WriteNpy(
    const std::string& path, ElementType type, uint64_t row_size, std::span<const std::byte> rows) {
  PS_ASSIGN(NpyWriter writer, NpyWriter::Create(path, type, row_size));
  PS_TRY(writer.Append(rows));
  return writer.Finish();
}

}  // namespace ps::worker
