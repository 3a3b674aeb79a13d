#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ps/base/buffer.h"
#include "ps/base/status.h"
#include "ps/proto/messages.h"
#include "ps/server/chunks/chunk_store.h"
#include "ps/server/life.h"
#include "ps/server/roster.h"
#include "ps/server/rounds.h"

namespace ps::server {

/// What a frame of a push says, as values of chunks that are here. The only code that knows how
/// gradients are encoded on their way.
///
/// Invariant: a frame is read and checked as a whole before anything of it is taken. Its values are
/// f32 from here on: staged, added up and applied as such.
class PushFrame {
 public:
  /// A chunk, or a part of one.
  struct Part {
    size_t chunk = 0;  // its index
    uint32_t part = 0;
    std::span<const float> values;  // empty: it stays as it is, since the worker has not moved it
    bool is_of_store = false;       // values are the store's own: who keeps them copies them
  };

  /// All outlive it.
  PushFrame(const Life& life, const ChunkStore& store, const Rounds& rounds)
      : life_(life), store_(store), rounds_(rounds) {}

  /// Checks what can be said of a frame by itself. Chunks that may be elsewhere by now, and those
  /// that are leaving, are left out. Errors: kInvalidArgument.
  Status Read(const proto::PushRequest& push);

  /// Whether the frame of the last Read belongs to the step that is next for its member, fits what
  /// came of it, and has room here. Errors: kInvalidArgument, kStale (its round is committed),
  /// kOverloaded.
  Status CheckFits(const proto::PushRequest& push, const Member& member);

  /// What the last Read has found.
  const std::vector<Part>& parts() const { return parts_; }

  /// Keeps the values of parts() alive; null: they are the caller's.
  const std::shared_ptr<const void>& owner() const { return owner_; }

  /// Forgets the frame.
  void Release() { owner_.reset(); }

 private:
  /// What will be here of a step with the frame in hand.
  struct Outlook {
    uint32_t begun = 0;       // chunks of which something is here
    uint32_t unfinished = 0;  // of those, not all is
  };

  Status CheckHeader(const proto::PushRequest& push) const;
  Status ReadParts(const proto::PushRequest& push);
  void ReadNothing();
  Status Decode(const proto::PushRequest& push);
  Outlook LookAhead(const proto::PushRequest& push, const Intake& intake);
  Status CheckOrder(
      const proto::PushRequest& push, const Member& member, const Outlook& outlook) const;
  Status CheckRoom(
      const proto::PushRequest& push, const Member& member, const Outlook& outlook) const;

  const Life& life_;
  const ChunkStore& store_;
  const Rounds& rounds_;

  std::vector<Part> parts_;
  uint64_t value_count_ = 0;  // of all of them
  std::shared_ptr<const void> owner_;
  std::shared_ptr<Buffer> zeros_;    // of frames that came as nothing
  std::shared_ptr<Buffer> decoded_;  // the values of a frame that did not come as f32
  // Scratch.
  std::vector<std::span<const std::byte>> encoded_;  // of each part, as it came
  std::vector<size_t> sorted_;
};

}  // namespace ps::server
