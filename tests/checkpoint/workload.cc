#include "tests/checkpoint/workload.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "checkpoint/job_store.h"
#include "checkpoint/keys.h"
#include "checkpoint/manifest.h"
#include "checkpoint/shard_store.h"
#include "ps/base/random.h"

namespace ps::checkpoint {
namespace {

constexpr ShardId kShard(0);

/// Versions are what they were at checkpoint `id`: not every chunk changes every time.
uint64_t VersionAt(size_t chunk, CheckpointId id) {
  return chunk == 0 ? id : (id + chunk) / 2;
}

Manifest MakeManifest(CheckpointId id, const PartSummary& summary) {
  Manifest manifest;
  manifest.id = id;
  // The clock goes back by an hour from each to the next: nothing may go by it.
  manifest.unix_micros = 1'753'000'000'000'000 - static_cast<int64_t>(id) * 3'600'000'000;
  manifest.parts = {{.shard = kShard, .directory = "shard-0", .summary = summary}};
  for (uint32_t c = 0; c < kWorkloadChunks; ++c) {
    const uint64_t count = WorkloadValues(c, 0).size();
    TensorSpec tensor;
    tensor.name = fmt::format("tensor{}", c);
    tensor.shape = {static_cast<int64_t>(count)};
    manifest.tensors.push_back(std::move(tensor));
    manifest.chunks.push_back(
        {.key = MakeChunkKey(c, 0), .begin = 0, .count = count, .shard = kShard});
  }
  return manifest;
}

Result<PartSummary> WritePart(ShardStore& store, CheckpointId id) {
  PartRecord part;
  PS_ASSIGN(const std::vector<CheckpointId> parts, store.Parts());
  PartRecord last;
  if (!parts.empty()) {
    PS_ASSIGN(last, store.ReadPart(parts.back()));
  }
  for (uint32_t c = 0; c < kWorkloadChunks; ++c) {
    const uint64_t version = VersionAt(c, id);
    const ChunkRef* previous = last.chunks.empty() ? nullptr : &last.chunks[c];
    if (previous != nullptr && previous->version == version) {
      part.chunks.push_back(*previous);
      continue;
    }
    const std::vector<float> values = WorkloadValues(c, version);
    const ChunkImage image{
        .key = MakeChunkKey(c, 0), .version = version, .value = values, .slots = {}};
    PS_ASSIGN(const ChunkRef ref, store.PutChunk(id, image, previous, {Codec::kZstd}));
    part.chunks.push_back(ref);
  }
  return store.CommitPart(id, part);
}

Status WriteRow(JobStore& store, uint64_t number) {
  const std::string key = MakeIdKey(number);
  const std::string value = fmt::format("row {}", number);
  const RowChange change{
      .kind = ChangeKind::kPut, .key = key, .value = std::as_bytes(std::span(value))};
  return store.WriteRows({&change, 1});
}

Status Run(Storage& storage, const std::string& path, int checkpoints, Acknowledged* done) {
  PS_ASSIGN(const auto job, JobStore::Open(storage, path, OpenMode::kWrite));
  PS_ASSIGN(const auto shard, ShardStore::Open(storage, path, kShard, OpenMode::kWrite));
  PS_ASSIGN(std::vector<CheckpointId> kept, job->Manifests());
  PS_ASSIGN(const std::vector<CheckpointId> parts, shard->Parts());
  PS_ASSIGN(const std::vector<Row> rows, job->ReadRows(""));
  const CheckpointId newest =
      std::max(kept.empty() ? 0 : kept.back(), parts.empty() ? 0 : parts.back());
  done->manifest = kept.empty() ? 0 : kept.back();
  done->rows = rows.size();
  for (CheckpointId id = newest + 1; id <= newest + static_cast<uint64_t>(checkpoints); ++id) {
    PS_TRY(WriteRow(*job, done->rows + 1));
    ++done->rows;
    PS_ASSIGN(const PartSummary summary, WritePart(*shard, id));
    PS_TRY(job->PutManifest(id, EncodeManifest(MakeManifest(id, summary))));
    done->manifest = id;
    done->rows_before_manifest = done->rows;
    PS_TRY(WriteRow(*job, done->rows + 1));
    ++done->rows;
    kept.push_back(id);
    if (kept.size() > 2) {
      PS_TRY(job->DeleteManifest(kept.front()));
      kept.erase(kept.begin());
      PS_TRY(shard->Retain(kept));
    }
  }
  return Status::Ok();
}

Status CheckCheckpoint(JobStore& job, ShardStore& shard, CheckpointId id) {
  PS_ASSIGN(const std::vector<std::byte> bytes, job.ReadManifest(id));
  PS_ASSIGN(const Manifest manifest, DecodeManifest(id, bytes));
  PS_ASSIGN(const uint32_t crc, shard.PartCrc(id));
  if (crc != manifest.parts.front().summary.crc) {
    return Status::Corruption(fmt::format("the part of checkpoint {} is another one", id));
  }
  PS_ASSIGN(const PartRecord part, shard.ReadPart(id));
  for (uint32_t c = 0; c < kWorkloadChunks; ++c) {
    PS_ASSIGN(const ChunkData data, shard.ReadChunk(part.chunks.at(c)));
    const std::vector<float> values = WorkloadValues(c, VersionAt(c, id));
    if (data.version != VersionAt(c, id) || data.value.size() != values.size() * sizeof(float) ||
        std::memcmp(data.value.data(), values.data(), data.value.size()) != 0) {
      return Status::InvalidArgument(fmt::format("chunk {} of checkpoint {} is wrong", c, id));
    }
  }
  return Status::Ok();
}

}  // namespace

std::vector<float> WorkloadValues(size_t chunk, uint64_t version) {
  const size_t count = chunk == 0 ? 200 : 3000 * chunk;
  std::vector<float> values;
  for (size_t i = 0; i < count; ++i) {
    values.push_back(
        static_cast<float>(ToUnit(CounterRandom(chunk, 1, i))) *
        (1 + 0.001F * static_cast<float>(version)));
  }
  return values;
}

Status CheckCheckpoint(Storage& storage, const std::string& path, uint64_t id) {
  PS_ASSIGN(const auto job, JobStore::Open(storage, path, OpenMode::kRead));
  PS_ASSIGN(const auto shard, ShardStore::Open(storage, path, kShard, OpenMode::kRead));
  return CheckCheckpoint(*job, *shard, id);
}

Acknowledged RunWorkload(Storage& storage, const std::string& path, int checkpoints, Status* end) {
  Acknowledged done;
  *end = Run(storage, path, checkpoints, &done);
  return done;
}

Status CheckWorkload(
    Storage& storage,
    const std::string& path,
    const Acknowledged& acknowledged,
    bool is_machine_lost) {
  PS_ASSIGN(const auto job, JobStore::Open(storage, path, OpenMode::kWrite));
  PS_ASSIGN(const auto shard, ShardStore::Open(storage, path, kShard, OpenMode::kWrite));
  PS_ASSIGN(const std::vector<CheckpointId> manifests, job->Manifests());
  const CheckpointId newest = manifests.empty() ? 0 : manifests.back();
  if (newest < acknowledged.manifest || newest > acknowledged.manifest + 1) {
    return Status::NotFound(fmt::format(
        "checkpoint {} was acknowledged, the newest is {}", acknowledged.manifest, newest));
  }
  for (const CheckpointId id : manifests) {
    PS_TRY(CheckCheckpoint(*job, *shard, id));
  }
  PS_ASSIGN(const std::vector<Row> rows, job->ReadRows(""));
  const uint64_t least = is_machine_lost ? acknowledged.rows_before_manifest : acknowledged.rows;
  if (rows.size() < least || rows.size() > acknowledged.rows + 1) {
    return Status::NotFound(
        fmt::format("{} rows were acknowledged, {} are there", acknowledged.rows, rows.size()));
  }
  for (uint64_t i = 0; i < rows.size(); ++i) {
    if (rows[i].key != MakeIdKey(i + 1)) {
      return Status::NotFound(fmt::format("row {} is missing", i + 1));
    }
  }
  return Status::Ok();
}

}  // namespace ps::checkpoint
