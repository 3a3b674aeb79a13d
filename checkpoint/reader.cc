#include "checkpoint/reader.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "checkpoint/storage/failure.h"

namespace ps::checkpoint {
namespace {

std::string Numbers(const std::vector<CheckpointId>& ids) {
  std::string text;
  for (const CheckpointId id : ids) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", id);
  }
  return text;
}

std::string PartName(const ManifestPart& part) {
  return fmt::format("part of shard {}", part.shard.value);
}

bool IsSame(float a, float b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

}  // namespace

std::string ElementsName(const Manifest& manifest, const PlacedChunk& chunk) {
  return fmt::format(
      "{}[{}:{}]",
      manifest.tensors[TensorOf(chunk.key)].name,
      chunk.begin,
      chunk.begin + chunk.count);
}

Reader::Reader(Storage* storage, std::string path) : storage_(storage), path_(std::move(path)) {}

Result<std::unique_ptr<Reader>> Reader::Open(Storage& storage, const std::string& path) {
  std::unique_ptr<Reader> reader(new Reader(&storage, path));
  PS_ASSIGN(reader->job_, JobStore::Open(storage, path, OpenMode::kRead));
  PS_ASSIGN(reader->ids_, reader->job_->Manifests());
  return reader;
}

Result<Manifest> Reader::ReadManifest(CheckpointId id) {
  if (std::find(ids_.begin(), ids_.end(), id) == ids_.end()) {
    return Status::NotFound(
        ids_.empty()
            ? fmt::format("no checkpoint in {} is complete", path_)
            : fmt::format("no checkpoint {} in {}; there are: {}", id, path_, Numbers(ids_)));
  }
  PS_ASSIGN(const std::vector<std::byte> bytes, job_->ReadManifest(id));
  return DecodeManifest(id, bytes).Annotate(fmt::format("the manifest of checkpoint {}", id));
}

Result<ShardStore*> Reader::StoreOf(const std::string& directory) {
  std::unique_ptr<ShardStore>& store = stores_[directory];
  if (store == nullptr) {
    PS_ASSIGN(store, ShardStore::Open(*storage_, path_, directory, OpenMode::kRead));
  }
  return store.get();
}

Result<const Reader::Part*> Reader::PartOf(const Manifest& manifest, ShardId shard) {
  const auto known = parts_.find({manifest.id, shard});
  if (known != parts_.end()) {
    return &known->second;
  }
  const auto placed = std::find_if(
      manifest.parts.begin(), manifest.parts.end(), [&](const ManifestPart& candidate) {
        return candidate.shard == shard;
      });
  if (placed == manifest.parts.end()) {
    return Status::Corruption(fmt::format("the manifest has no part of shard {}", shard.value));
  }
  Part part;
  PS_ASSIGN(part.store, StoreOf(placed->directory));
  PS_ASSIGN(const uint32_t crc, part.store->PartCrc(manifest.id));
  if (crc != placed->summary.crc) {
    return Status::Corruption(fmt::format(
        "the {} of checkpoint {} is another one than the manifest names",
        PartName(*placed),
        manifest.id));
  }
  PS_ASSIGN(const PartRecord record, part.store->ReadPart(manifest.id));
  for (const ChunkRef& ref : record.chunks) {
    part.refs.emplace(ref.key, ref);
  }
  return &parts_.emplace(std::pair(manifest.id, shard), std::move(part)).first->second;
}

Result<ChunkData> Reader::ReadChunk(const Manifest& manifest, const PlacedChunk& chunk) {
  const auto read = [&]() -> Result<ChunkData> {
    PS_ASSIGN(const Part* const part, PartOf(manifest, chunk.shard));
    const auto ref = part->refs.find(chunk.key);
    if (ref == part->refs.end() || ref->second.element_count != chunk.count) {
      return Status::Corruption(fmt::format("the part of shard {} lacks it", chunk.shard.value));
    }
    return part->store->ReadChunk(ref->second);
  };
  return read().Annotate(ElementsName(manifest, chunk));
}

Status Reader::ReadWhole(CheckpointId id) {
  std::vector<Damage> damages = Verify(id);
  if (damages.empty()) {
    return Status::Ok();
  }
  const auto proof = std::ranges::find_if(damages, IsProvedCorrupt, &Damage::status);
  Damage& damage = proof == damages.end() ? damages.front() : *proof;
  const bool is_named = damage.status.message().starts_with(damage.what);
  return is_named ? std::move(damage.status) : std::move(damage.status).Annotate(damage.what);
}

std::vector<Damage> Reader::Verify(CheckpointId id) {
  std::vector<Damage> damages;
  const Result<Manifest> manifest = ReadManifest(id);
  if (!manifest.ok()) {
    damages.push_back({.what = "manifest", .status = manifest.status()});
    return damages;
  }
  std::vector<ShardId> broken;
  for (const ManifestPart& placed : manifest->parts) {
    const auto part = PartOf(*manifest, placed.shard);
    if (!part.ok()) {
      damages.push_back({.what = PartName(placed), .status = part.status()});
      broken.push_back(placed.shard);
    }
  }
  for (const PlacedChunk& chunk : manifest->chunks) {
    if (std::find(broken.begin(), broken.end(), chunk.shard) != broken.end()) {
      continue;  // all of its chunks are gone, which is said already
    }
    const auto data = ReadChunk(*manifest, chunk);
    if (!data.ok()) {
      damages.push_back({.what = ElementsName(*manifest, chunk), .status = data.status()});
    }
  }
  return damages;
}

std::vector<Damage> Reader::VerifyIndex(CheckpointId id) const {
  const IndexDamage& index = job_->index_damage();
  std::vector<Damage> damages;
  if (!index.broken.ok()) {
    Status status = index.broken;
    damages.push_back(
        {.what = "index",
         .status = std::move(status).Annotate(
             fmt::format("{} can't be read, its copy is used", JobDirectory(path_)))});
  }
  if (!index.copy_broken.ok()) {
    Status status = index.copy_broken;
    damages.push_back(
        {.what = "copy of the index",
         .status =
             std::move(status).Annotate(fmt::format("{} can't be read", JobCopyDirectory(path_)))});
  }
  if (std::ranges::find(index.unmatched, id) != index.unmatched.end()) {
    damages.push_back(
        {.what = "index",
         .status = Status::Corruption(fmt::format(
             "{} has its manifest, and {} has not: the checkpoint was removed, and damage has "
             "brought it back, or a disk was full",
             JobDirectory(path_),
             JobCopyDirectory(path_)))});
  }
  if (std::ranges::find(index.lost, id) != index.lost.end()) {
    damages.push_back(
        {.what = "index",
         .status = Status::Corruption(fmt::format(
             "{} is damaged: the checkpoint was committed, and its manifest is gone; the one in {} "
             "is used, and psctl resume puts it back",
             JobDirectory(path_),
             JobCopyDirectory(path_)))});
  }
  return damages;
}

Status Reader::ReadTensor(
    const Manifest& manifest,
    uint32_t tensor,
    const std::function<Status(uint64_t begin, std::span<const float> values)>& visit) {
  for (const PlacedChunk& chunk : manifest.chunks) {
    if (TensorOf(chunk.key) == tensor) {
      PS_ASSIGN(const ChunkData data, ReadChunk(manifest, chunk));
      PS_TRY(visit(chunk.begin, data.value.floats()));
    }
  }
  return Status::Ok();
}

Result<std::vector<TensorDifference>> Reader::Compare(
    const Manifest& first, const Manifest& second) {
  const auto is_alike = [](const TensorSpec& a, const TensorSpec& b) {
    return a.name == b.name && a.shape == b.shape;
  };
  if (!std::equal(
          first.tensors.begin(),
          first.tensors.end(),
          second.tensors.begin(),
          second.tensors.end(),
          is_alike)) {
    return Status::InvalidArgument(
        fmt::format("checkpoints {} and {} are of different models", first.id, second.id));
  }
  std::vector<TensorDifference> differences;
  std::vector<float> values;
  for (uint32_t tensor = 0; tensor < first.tensors.size(); ++tensor) {
    TensorDifference difference;
    difference.name = first.tensors[tensor].name;
    values.clear();
    PS_TRY(ReadTensor(first, tensor, [&](uint64_t /*begin*/, std::span<const float> piece) {
      values.insert(values.end(), piece.begin(), piece.end());
      return Status::Ok();
    }));
    difference.elements = values.size();
    double square_sum = 0;
    double change_square_sum = 0;
    PS_TRY(ReadTensor(second, tensor, [&](uint64_t begin, std::span<const float> piece) {
      for (size_t i = 0; i < piece.size(); ++i) {
        const float before = values[begin + i];
        const double change = double{piece[i]} - double{before};
        difference.elements_changed += IsSame(before, piece[i]) ? 0 : 1;
        difference.change_max = std::max(difference.change_max, std::abs(change));
        change_square_sum += change * change;
        square_sum += double{before} * double{before};
      }
      return Status::Ok();
    }));
    difference.change_norm = std::sqrt(change_square_sum);
    difference.norm = std::sqrt(square_sum);
    differences.push_back(std::move(difference));
  }
  return differences;
}

}  // namespace ps::checkpoint
