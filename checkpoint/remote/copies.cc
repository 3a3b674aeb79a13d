#include "checkpoint/remote/copies.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <utility>

#include "ps/base/text.h"

namespace ps::checkpoint {
namespace {

/// Whether the reason lies in this one copy.
bool IsOfTheCopy(const Status& status) {
  return status.code() == StatusCode::kCorruption || status.code() == StatusCode::kNotFound ||
         status.code() == StatusCode::kUnsupported;
}

}  // namespace

Result<std::vector<CheckpointId>> ListCopies(store::ObjectStore& store) {
  PS_ASSIGN(const std::vector<store::ObjectInfo> objects, store.List(kIndexPrefix));
  std::vector<CheckpointId> ids;
  for (const store::ObjectInfo& object : objects) {
    if (const CheckpointId id = ParseIndexKey(object.key); id != 0) {
      ids.push_back(id);
    }
  }
  return ids;
}

Result<PieceSizes> ListPieces(store::ObjectStore& store) {
  PS_ASSIGN(const std::vector<store::ObjectInfo> objects, store.List(kPiecePrefix));
  PieceSizes listed;
  for (const store::ObjectInfo& object : objects) {
    listed.emplace(object.key, object.bytes);
  }
  return listed;
}

Result<CopyIndex> ReadCopyIndex(store::ObjectStore& store, CheckpointId id) {
  PS_ASSIGN(const std::vector<std::byte> bytes, store.Get(IndexKey(id)));
  return DecodeIndex(id, bytes).Annotate(fmt::format("{}: {}", store.name(), IndexKey(id)));
}

size_t CountMissing(const CopyIndex& index, const PieceSizes& listed) {
  std::set<std::string> missing;
  for (const CopiedDatabase& database : index.databases) {
    for (const CopiedFile& file : database.files) {
      for (const Piece& piece : file.pieces) {
        const std::string key = PieceKey(piece.digest);
        const auto it = listed.find(key);
        if (it == listed.end() || it->second != piece.bytes) {
          missing.insert(key);
        }
      }
    }
  }
  return missing.size();
}

Result<CopyList> ListWholeCopies(store::ObjectStore& store) {
  // Pieces are listed last: those of an index that is written meanwhile are there by then.
  PS_ASSIGN(const std::vector<CheckpointId> ids, ListCopies(store));
  std::map<CheckpointId, CopyIndex> indexes;
  CopyList list;
  for (const CheckpointId id : ids) {
    Result<CopyIndex> index = ReadCopyIndex(store, id);
    if (index.ok()) {
      indexes.emplace(id, std::move(index).value());
    } else if (IsOfTheCopy(index.status())) {
      list.incomplete.push_back({.id = id, .why = std::string(index.status().message())});
    } else {
      return std::move(index).status();
    }
  }
  PS_ASSIGN(const PieceSizes listed, ListPieces(store));
  for (const auto& [id, index] : indexes) {
    const size_t missing = CountMissing(index, listed);
    if (missing == 0) {
      list.whole.push_back(id);
    } else {
      list.incomplete.push_back(
          {.id = id,
           .why = fmt::format(
               "{} of its {} are missing", missing, Plural(PieceKeys(index).size(), "piece"))});
    }
  }
  return list;
}

Result<std::vector<CheckpointId>> PruneCopies(
    store::ObjectStore& store, size_t keep, const WriterMark& mark) {
  PS_ASSIGN(const PieceSizes pieces, ListPieces(store));
  PS_ASSIGN(std::vector<CheckpointId> ids, ListCopies(store));
  std::set<std::string> needed;
  size_t whole = 0;
  while (!ids.empty() && whole < keep) {
    PS_ASSIGN(const CopyIndex index, ReadCopyIndex(store, ids.back()));
    whole += CountMissing(index, pieces) == 0 ? 1 : 0;
    needed.merge(PieceKeys(index));
    ids.pop_back();
  }
  for (const CheckpointId id : ids) {
    PS_TRY(mark.Check());
    PS_TRY(store.Delete(IndexKey(id)));
  }
  for (const auto& [key, bytes] : pieces) {
    if (!needed.contains(key)) {
      PS_TRY(mark.Check());
      PS_TRY(store.Delete(key));
    }
  }
  return ids;
}

}  // namespace ps::checkpoint
