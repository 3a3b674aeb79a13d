#include "tests/fuzz/memory_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include "ps/base/check.h"

namespace ps::fuzz {

MemoryFile::MemoryFile(std::span<const uint8_t> bytes) : fd_(::memfd_create("fuzz", MFD_CLOEXEC)) {
  PS_CHECK(fd_.get() >= 0);
  PS_CHECK(::write(fd_.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
}

}  // namespace ps::fuzz
