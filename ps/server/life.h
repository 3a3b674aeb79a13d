#pragma once

#include <cstdint>

#include "ps/base/ids.h"
#include "ps/base/status.h"
#include "ps/server/shard_settings.h"

namespace ps::server {

/// The life of a shard's parameters, from a set-up to the next one, and what is constant in it.
/// ShardCore alone writes it.
struct Life {
  explicit Life(ShardId of) : shard(of) {}

  const ShardId shard;
  uint64_t number = 0;  // of the newest; 0: none has begun
  bool is_set_up = false;
  ShardSettings settings;

  /// Why nothing can be asked of the shard yet.
  Status CheckSetUp() const {
    return is_set_up ? Status::Ok() : Status::Unavailable("this shard is not set up yet");
  }
};

}  // namespace ps::server
