#include "checkpoint/remote/writer_mark.h"

#include <fmt/core.h>

#include <span>
#include <utility>
#include <vector>

#include "checkpoint/remote/index.h"
#include "ps/base/text.h"

namespace ps::checkpoint {
namespace {

/// Before the name. Versions that left the name there for good wrote the name alone.
constexpr std::string_view kAtWork = "at work: ";

constexpr size_t kMarkBytesMax = 4096;

/// Nothing when there is none.
Result<std::optional<std::string>> ReadMark(store::ObjectStore& store) {
  const auto bytes = store.Get(kWriterKey, kMarkBytesMax);
  if (bytes.status().code() == StatusCode::kNotFound) {
    return std::optional<std::string>();
  }
  PS_TRY(bytes.status());
  return std::optional<std::string>(
      std::in_place, reinterpret_cast<const char*>(bytes->data()), bytes->size());
}

}  // namespace

WriterMark::WriterMark(store::ObjectStore* store, std::string name)
    : store_(store), name_(std::move(name)) {}

Status WriterMark::Take() {
  is_taken_ = true;  // also when it fails: the mark may be there
  const std::string text = std::string(kAtWork) + name_;
  return store_->Put(kWriterKey, std::as_bytes(std::span(text)));
}

Status WriterMark::Check() const {
  PS_ASSIGN(const std::optional<std::string> mark, ReadMark(*store_));
  if (mark == std::string(kAtWork) + name_) {
    return Status::Ok();
  }
  return Status::Unavailable(
      mark
          ? fmt::format(
                "another process copies to {} now: {}", store_->name(), Printable(Clip(*mark, 200)))
          : fmt::format("another process has changed {} meanwhile", store_->name()));
}

void WriterMark::Leave() {
  const Result<std::optional<std::string>> mark = ReadMark(*store_);
  if (!mark.ok()) {
    return;
  }
  const bool is_own = *mark == std::string(kAtWork) + name_;
  is_taken_ = is_own && !store_->Delete(kWriterKey).ok();
}

Result<std::optional<std::string>> ReadWriter(store::ObjectStore& store) {
  PS_ASSIGN(std::optional<std::string> mark, ReadMark(store));
  if (!mark || !mark->starts_with(kAtWork)) {
    return std::optional<std::string>();
  }
  mark->erase(0, kAtWork.size());
  return mark;
}

}  // namespace ps::checkpoint
