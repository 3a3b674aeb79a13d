#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/remote/index.h"
#include "checkpoint/remote/writer_mark.h"
#include "ps/base/status.h"
#include "ps/store/object_store.h"

namespace ps::checkpoint {

/// The checkpoints whose index a store lists, oldest first. Whether one is whole: CountMissing.
Result<std::vector<CheckpointId>> ListCopies(store::ObjectStore& store);

/// Bytes of the pieces that a store lists, by key.
using PieceSizes = std::map<std::string, uint64_t>;

Result<PieceSizes> ListPieces(store::ObjectStore& store);

/// Errors: kNotFound, kCorruption, kUnsupported, those of the store.
Result<CopyIndex> ReadCopyIndex(store::ObjectStore& store, CheckpointId id);

/// How many pieces of the index are not listed with the right size. A copy counts as whole when
/// none is missing, whatever its index says.
size_t CountMissing(const CopyIndex& index, const PieceSizes& listed);

/// A copy of which pieces are missing, or whose index can't be read.
struct IncompleteCopy {
  CheckpointId id = 0;
  std::string why;
};

struct CopyList {
  std::vector<CheckpointId> whole;  // oldest first
  std::vector<IncompleteCopy> incomplete;
};

/// Reads all indexes and compares them with the list of pieces. Errors: those of the store.
Result<CopyList> ListWholeCopies(store::ObjectStore& store);

/// Removes all copies but the newest `keep` that are whole and those that are newer, and all
/// pieces that no index names any more. Requires: keep >= 1; the mark is taken. Returns those
/// removed. Errors: those of the store; kUnavailable when another process has taken the mark: it
/// stops there; kCorruption when the index of a kept one can't be read (then no piece goes).
Result<std::vector<CheckpointId>> PruneCopies(
    store::ObjectStore& store, size_t keep, const WriterMark& mark);

}  // namespace ps::checkpoint
