#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "ps/base/status.h"
#include "worker/data/load_progress.h"
#include "worker/data/text/bpe.h"

namespace ps::worker {

/// Takes tokens in the order of the text.
using TokenSink = std::function<Status(std::span<const uint32_t> tokens)>;

/// Gives `sink` the tokens of a text, which are those of bpe.Encode, made on as many threads as the
/// machine has cores (8 at most). The sink is called by this thread. Memory holds some megabytes of
/// tokens, whatever the size of the text, unless that has no white space.
/// `path`: of the text, for errors. `progress` is told of its bytes. Errors: kCorruption with file
/// and byte (no UTF-8), kCancelled, those of the sink.
Status EncodeText(
    std::string_view text,
    const std::string& path,
    const Bpe& bpe,
    LoadProgress* progress,
    const TokenSink& sink);

}  // namespace ps::worker
