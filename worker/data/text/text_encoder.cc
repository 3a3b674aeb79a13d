#include "worker/data/text/text_encoder.h"

#include <fmt/core.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "ps/base/utf8.h"

namespace ps::worker {
namespace {

constexpr size_t kTextBlockBytes = size_t{1} << 20;
constexpr unsigned kThreadsMax = 8;
constexpr size_t kBlocksAhead = 3;  // of each thread

bool IsSpace(char c) {
  return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/// The end of a block of about kTextBlockBytes that begins at `begin`: before white space that is
/// behind an ASCII character that is none. There a piece ends (pretokens.h) whatever is around it.
size_t EndOfBlock(std::string_view text, size_t begin) {
  for (size_t at = begin + kTextBlockBytes; at < text.size(); ++at) {
    if (IsSpace(text[at]) && text[at - 1] > ' ' && text[at - 1] < '\x7f') {
      return at;
    }
  }
  return text.size();
}

/// `begin`: of the block in its file.
Status CheckUtf8(std::string_view block, const std::string& path, size_t begin) {
  for (size_t at = 0; at < block.size();) {
    const size_t bytes = Utf8Bytes(block.substr(at));
    if (bytes == 0) {
      return Status::Corruption(fmt::format(
          "{}: byte {}: {:#04x} is not UTF-8, which data.tokenizer takes; convert the file, for "
          "example by: iconv -f latin1 -t utf-8",
          path,
          begin + at,
          static_cast<unsigned char>(block[at])));
    }
    at += bytes;
  }
  return Status::Ok();
}

using Tokens = std::vector<uint32_t>;

/// Blocks are taken by threads in their order, and given back in it.
class BlockEncoder {
 public:
  BlockEncoder(
      std::string_view text, const std::string& path, const Bpe& bpe, LoadProgress* progress)
      : text_(text), path_(path), bpe_(bpe), progress_(progress) {}

  Status Run(unsigned threads, const TokenSink& sink) {
    blocks_max_ = threads * kBlocksAhead;
    std::vector<std::thread> pool;
    for (unsigned i = 0; i < threads; ++i) {
      pool.emplace_back([this] { Work(); });
    }
    const Status status = Drain(sink);
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : pool) {
      thread.join();
    }
    return status;
  }

 private:
  struct Block {
    size_t begin = 0;
    size_t end = 0;
    std::optional<Result<Tokens>> tokens;  // none while it is being made
  };

  Result<Tokens> Encode(size_t begin, size_t end, Bpe* bpe) const {
    const std::string_view block = text_.substr(begin, end - begin);
    PS_TRY(CheckUtf8(block, path_, begin));
    Tokens tokens;
    PS_TRY(bpe->Encode(block, &tokens, progress_));
    return tokens;
  }

  void Work() {
    Bpe bpe = bpe_;
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] {
        return is_over_ || next_ == text_.size() || blocks_.size() < blocks_max_;
      });
      if (is_over_ || next_ == text_.size()) {
        return;
      }
      Block& block = blocks_.emplace_back();  // a deque's elements stay where they are
      block.begin = next_;
      block.end = next_ = EndOfBlock(text_, next_);
      lock.unlock();
      Result<Tokens> tokens = Encode(block.begin, block.end, &bpe);
      lock.lock();
      block.tokens = std::move(tokens);
      changed_.notify_all();
    }
  }

  Status Drain(const TokenSink& sink) {
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] {
        return blocks_.empty() ? next_ == text_.size() : blocks_.front().tokens.has_value();
      });
      if (blocks_.empty()) {
        return Status::Ok();
      }
      PS_ASSIGN(const Tokens tokens, std::move(*blocks_.front().tokens));
      blocks_.pop_front();
      lock.unlock();
      changed_.notify_all();
      PS_TRY(sink(tokens));
    }
  }

  const std::string_view text_;
  const std::string& path_;
  const Bpe& bpe_;
  LoadProgress* const progress_;
  size_t blocks_max_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  size_t next_ = 0;  // where the next block begins
  std::deque<Block> blocks_;
  bool is_over_ = false;
};

}  // namespace

Status EncodeText(
    std::string_view text,
    const std::string& path,
    const Bpe& bpe,
    LoadProgress* progress,
    const TokenSink& sink) {
  const auto blocks =
      static_cast<unsigned>(std::min<size_t>(text.size() / kTextBlockBytes + 1, 64));
  const unsigned threads = std::min({std::thread::hardware_concurrency(), kThreadsMax, blocks});
  return BlockEncoder(text, path, bpe, progress).Run(std::max(threads, 1U), sink);
}

}  // namespace ps::worker
