#include "worker/data/pictures/picture_reader.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "ps/base/crc32c.h"
#include "ps/base/file.h"
#include "ps/base/text.h"
#include "worker/data/pictures/picture_decoder.h"
#include "worker/data/pictures/picture_resize.h"

namespace ps::worker {
namespace {

constexpr size_t kThreadsMax = 256;
/// What all decoders have in memory together. One picture alone may take more.
constexpr uint64_t kDecodingBytesMax = uint64_t{2} << 30;
/// The header of nearly every file, with its EXIF.
constexpr size_t kHeadBytes = size_t{128} << 10;

std::span<const uint8_t> BytesOf(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

/// The same failure, of this file.
Status InFile(const Status& why, const std::string& path) {
  return {why.code(), fmt::format("{}: {}", path, why.message())};
}

Result<std::string> ReadHead(const std::string& path) {
  struct Closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  const std::unique_ptr<std::FILE, Closer> file(std::fopen(path.c_str(), "rb"));
  std::string head(kHeadBytes, '\0');
  head.resize(file == nullptr ? 0 : std::fread(head.data(), 1, head.size(), file.get()));
  return head;  // what went wrong says ReadFile, when the whole file is read
}

Result<PictureHeader> HeaderOf(const std::string& path) {
  PS_ASSIGN(const std::string head, ReadHead(path));
  if (!head.empty()) {
    Result<PictureHeader> header = ReadPictureHeader(BytesOf(head));
    if (header.ok()) {
      return header;
    }
  }
  PS_ASSIGN(const std::string file, ReadFile(path, kPictureFileBytesMax));
  Result<PictureHeader> header = ReadPictureHeader(BytesOf(file));
  return header.ok() ? header : InFile(header.status(), path);
}

/// Lets so many bytes of decoders be in memory at a time, and more of one that is alone.
class MemoryGate {
 public:
  void Enter(uint64_t bytes) {
    std::unique_lock lock(mutex_);
    is_left_.wait(lock, [&] { return taken_ == 0 || taken_ + bytes <= kDecodingBytesMax; });
    taken_ += bytes;
  }

  void Leave(uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    taken_ -= bytes;
    is_left_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable is_left_;
  uint64_t taken_ = 0;
};

/// One picture into its place, and the CRC of its file.
class Reader {
 public:
  Reader(uint32_t channels, const PictureSize& size, LoadProgress* progress)
      : channels_(channels), size_(size), progress_(progress) {}

  Status Read(const std::string& path, std::span<uint8_t> planes, uint32_t* crc) {
    PS_ASSIGN(const std::string file, ReadFile(path, kPictureFileBytesMax));
    const Status decoded = Decode(BytesOf(file), planes);
    if (!decoded.ok()) {
      return InFile(decoded, path);
    }
    *crc = Crc32c(std::as_bytes(std::span(file)));
    return progress_->Advance(file.size());
  }

 private:
  Status Decode(std::span<const uint8_t> bytes, std::span<uint8_t> planes) {
    PS_ASSIGN(const PictureHeader header, ReadPictureHeader(bytes));
    const PictureSize least = CoveringSize(header.upright(), size_);
    const uint64_t memory = MemoryForDecoding(header, least);
    gate_.Enter(memory);
    const Status done = DecodeInto(bytes, header, least, planes);
    gate_.Leave(memory);
    return done;
  }

  Status DecodeInto(
      std::span<const uint8_t> bytes,
      const PictureHeader& header,
      const PictureSize& least,
      std::span<uint8_t> planes) const {
    PS_ASSIGN(const Picture picture, DecodePicture(bytes, header, channels_, least));
    ResizeAndCrop(picture, size_, planes);
    return Status::Ok();
  }

  const uint32_t channels_;
  const PictureSize size_;
  LoadProgress* const progress_;
  MemoryGate gate_;
};

std::string SizeText(const PictureSize& size) {
  return fmt::format("{} x {}", size.width, size.height);
}

/// A side that half of the pictures have, among those that people take.
uint32_t ProposedSide(std::vector<PictureSize> sizes) {
  constexpr std::array<uint32_t, 8> kUsual = {256, 224, 192, 160, 128, 96, 64, 32};
  std::ranges::sort(sizes, {}, [](const PictureSize& s) { return std::min(s.height, s.width); });
  const PictureSize& middle = sizes[sizes.size() / 2];
  const uint32_t side = std::min(middle.height, middle.width);
  const auto* const usual =
      std::ranges::find_if(kUsual, [side](uint32_t usual) { return usual <= side; });
  return usual == kUsual.end() ? side : *usual;
}

Status SizesDiffer(const std::vector<std::string>& paths, const std::vector<PictureSize>& sizes) {
  const auto area = [](const PictureSize& size) { return uint64_t{size.height} * size.width; };
  const auto smallest = std::ranges::min_element(sizes, {}, area) - sizes.begin();
  const auto largest = std::ranges::max_element(sizes, {}, area) - sizes.begin();
  std::map<PictureSize, uint64_t> counts;
  for (const PictureSize& size : sizes) {
    ++counts[size];
  }
  const auto most = std::ranges::max_element(counts, {}, [](const auto& c) { return c.second; });
  const uint32_t side = ProposedSide(sizes);
  const auto at = [&](int64_t i) {
    return fmt::format(
        "{} ({})", SizeText(sizes[static_cast<size_t>(i)]), paths[static_cast<size_t>(i)]);
  };
  return Status::InvalidArgument(fmt::format(
      "data.picture is missing, and the {} have {}: {} of {}, the smallest {}, the largest {}; say "
      "what they are to become, for example \"picture\": {{\"height\": {}, \"width\": {}}}",
      Plural(sizes.size(), "picture"),
      Plural(counts.size(), "size"),
      most->second,
      SizeText(most->first),
      at(smallest),
      at(largest),
      side,
      side));
}

}  // namespace

Status ForEachOnAllCores(size_t count, const std::function<Status(size_t)>& work) {
  std::atomic<size_t> next = 0;
  std::atomic<size_t> end = count;  // the lowest failure, once there is one
  std::mutex mutex;
  Status failure;
  const auto take_some = [&] {
    // Numbers are taken in their order, so all below a failure are taken before its thread sees it.
    for (size_t i = next++; i < end; i = next++) {
      Status done = work(i);
      if (!done.ok()) {
        const std::lock_guard lock(mutex);
        if (i < end) {
          end = i;
          failure = std::move(done);
        }
      }
    }
  };
  const size_t cores = std::max<size_t>(std::thread::hardware_concurrency(), 1);
  std::vector<std::thread> others;
  for (size_t i = 1; i < std::min({cores, count, kThreadsMax}); ++i) {
    others.emplace_back(take_some);
  }
  take_some();
  for (std::thread& thread : others) {
    thread.join();
  }
  return failure;
}

Result<PictureSize> CommonSize(const std::vector<std::string>& paths, LoadProgress* progress) {
  std::vector<PictureSize> sizes(paths.size());
  PS_TRY(ForEachOnAllCores(paths.size(), [&](size_t i) -> Status {
    PS_ASSIGN(const PictureHeader header, HeaderOf(paths[i]));
    sizes[i] = header.upright();
    return progress->Advance(0);
  }));
  return std::ranges::adjacent_find(sizes, std::ranges::not_equal_to()) == sizes.end()
             ? Result<PictureSize>(sizes.front())
             : SizesDiffer(paths, sizes);
}

Result<PictureBytes> ReadPictures(
    const std::vector<std::string>& paths,
    uint32_t channels,
    const PictureSize& size,
    LoadProgress* progress) {
  const size_t picture_bytes = size_t{channels} * size.height * size.width;
  PictureBytes read;
  read.pixels.resize(paths.size() * picture_bytes);
  read.crcs.resize(paths.size());
  Reader reader(channels, size, progress);
  PS_TRY(ForEachOnAllCores(paths.size(), [&](size_t i) {
    return reader.Read(
        paths[i], std::span(read.pixels).subspan(i * picture_bytes, picture_bytes), &read.crcs[i]);
  }));
  return read;
}

}  // namespace ps::worker
