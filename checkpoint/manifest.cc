#include "checkpoint/manifest.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "checkpoint/envelope.h"
#include "ps/base/check.h"

namespace ps::checkpoint {
namespace {

// Bytes of an item at least, to bound counts by what is there.
constexpr size_t kTensorBytesMin = 18;
constexpr size_t kDimensionBytes = 8;
constexpr size_t kChunkBytes = 28;
constexpr size_t kPartBytesMin = 60;

/// Elements of a shape; none when a dimension is not positive or the product is no i64.
std::optional<uint64_t> ElementsOf(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t dimension : shape) {
    if (dimension < 1 || __builtin_mul_overflow(count, dimension, &count)) {
      return std::nullopt;
    }
  }
  return static_cast<uint64_t>(count);
}

Status CheckTensors(const std::vector<TensorSpec>& tensors) {
  for (const TensorSpec& tensor : tensors) {
    if (!ElementsOf(tensor.shape).has_value()) {
      return Status::InvalidArgument(fmt::format("tensor {} has an impossible shape", tensor.name));
    }
    if (tensor.init > InitKind::kUniform || tensor.rule > UpdateRule::kAverage) {
      return Status::InvalidArgument(fmt::format("tensor {} has an unknown rule", tensor.name));
    }
  }
  return Status::Ok();
}

/// Each tensor is covered by its chunks, in order.
Status CheckCoverage(const Manifest& manifest) {
  auto chunk = manifest.chunks.begin();
  for (uint32_t tensor = 0; tensor < manifest.tensors.size(); ++tensor) {
    const uint64_t elements = *ElementsOf(manifest.tensors[tensor].shape);
    uint64_t covered = 0;
    for (; chunk != manifest.chunks.end() && TensorOf(chunk->key) == tensor; ++chunk) {
      const bool is_next = chunk == manifest.chunks.begin() || std::prev(chunk)->key < chunk->key;
      if (!is_next || chunk->begin != covered || chunk->count < 1 ||
          chunk->count > elements - covered) {
        break;
      }
      covered += chunk->count;
    }
    if (covered != elements) {
      return Status::InvalidArgument(
          fmt::format("the chunks of tensor {} do not cover it", manifest.tensors[tensor].name));
    }
  }
  if (chunk != manifest.chunks.end()) {
    return Status::InvalidArgument("there are chunks of a tensor that is not in the model");
  }
  return Status::Ok();
}

Status CheckParts(const Manifest& manifest) {
  const auto by_shard = [](const ManifestPart& a, const ManifestPart& b) {
    return a.shard < b.shard;
  };
  for (size_t i = 0; i < manifest.parts.size(); ++i) {
    const std::string& directory = manifest.parts[i].directory;
    if (i > 0 && !by_shard(manifest.parts[i - 1], manifest.parts[i])) {
      return Status::InvalidArgument("the parts are not in the order of their shards");
    }
    // It becomes a part of a path.
    if (directory.empty() || directory.front() == '.' ||
        directory.find_first_of(std::string_view("/\0", 2)) != std::string::npos) {
      return Status::InvalidArgument("the name of a shard's directory is no plain name");
    }
  }
  for (const PlacedChunk& chunk : manifest.chunks) {
    const ManifestPart wanted{.shard = chunk.shard, .directory = "", .summary = {}};
    if (!std::binary_search(manifest.parts.begin(), manifest.parts.end(), wanted, by_shard)) {
      return Status::InvalidArgument(
          fmt::format("a chunk is on shard {}, which has no part", chunk.shard.value));
    }
  }
  return Status::Ok();
}

void PutTensor(ByteWriter* out, const TensorSpec& tensor) {
  out->PutText(tensor.name);
  out->Put(static_cast<uint32_t>(tensor.shape.size()));
  for (const int64_t dimension : tensor.shape) {
    out->Put(dimension);
  }
  out->Put(static_cast<uint8_t>(tensor.init));
  out->Put(tensor.init_scale);
  out->Put(static_cast<uint8_t>(tensor.rule));
  out->Put(tensor.average_rate);
  out->Put(static_cast<uint8_t>(tensor.has_weight_decay ? 1 : 0));
}

TensorSpec GetTensor(ByteReader* in) {
  TensorSpec tensor;
  tensor.name = in->GetText();
  tensor.shape.resize(in->GetCount(kDimensionBytes));
  for (int64_t& dimension : tensor.shape) {
    dimension = in->Get<int64_t>();
  }
  tensor.init = static_cast<InitKind>(in->Get<uint8_t>());
  tensor.init_scale = in->Get<float>();
  tensor.rule = static_cast<UpdateRule>(in->Get<uint8_t>());
  tensor.average_rate = in->Get<float>();
  tensor.has_weight_decay = in->Get<uint8_t>() != 0;
  return tensor;
}

void PutPart(ByteWriter* out, const ManifestPart& part) {
  out->Put(part.shard.value);
  out->PutText(part.directory);
  out->Put(part.summary.bytes);
  out->Put(part.summary.crc);
  const WriteStats& stats = part.summary.stats;
  for (const uint64_t number :
       {stats.logical_bytes,
        stats.written_bytes,
        stats.shared_bytes,
        stats.chunks_written,
        stats.chunks_shared}) {
    out->Put(number);
  }
}

ManifestPart GetPart(ByteReader* in) {
  ManifestPart part;
  part.shard = ShardId(in->Get<uint32_t>());
  part.directory = in->GetText();
  part.summary.bytes = in->Get<uint64_t>();
  part.summary.crc = in->Get<uint32_t>();
  WriteStats& stats = part.summary.stats;
  for (uint64_t* number :
       {&stats.logical_bytes,
        &stats.written_bytes,
        &stats.shared_bytes,
        &stats.chunks_written,
        &stats.chunks_shared}) {
    *number = in->Get<uint64_t>();
  }
  return part;
}

void PutChunk(ByteWriter* out, const PlacedChunk& chunk) {
  out->Put(chunk.key.value);
  out->Put(chunk.begin);
  out->Put(chunk.count);
  out->Put(chunk.shard.value);
}

PlacedChunk GetChunk(ByteReader* in) {
  PlacedChunk chunk;
  chunk.key = ChunkKey(in->Get<uint64_t>());
  chunk.begin = in->Get<uint64_t>();
  chunk.count = in->Get<uint64_t>();
  chunk.shard = ShardId(in->Get<uint32_t>());
  return chunk;
}

template <typename Item, typename PutItem>
void PutAll(ByteWriter* out, const std::vector<Item>& items, const PutItem& put) {
  out->Put(static_cast<uint32_t>(items.size()));
  for (const Item& item : items) {
    put(out, item);
  }
}

template <typename Item, typename GetItem>
void GetAll(ByteReader* in, size_t item_bytes_min, std::vector<Item>* items, const GetItem& get) {
  const size_t count = in->GetCount(item_bytes_min);
  for (size_t i = 0; i < count && in->is_ok(); ++i) {
    items->push_back(get(in));
  }
}

}  // namespace

WriteStats TotalStats(const Manifest& manifest) {
  WriteStats total;
  for (const ManifestPart& part : manifest.parts) {
    total += part.summary.stats;
  }
  return total;
}

Status CheckManifest(const Manifest& manifest) {
  PS_TRY(CheckTensors(manifest.tensors));
  PS_TRY(CheckCoverage(manifest));
  return CheckParts(manifest);
}

std::vector<std::byte> EncodeManifest(const Manifest& manifest) {
  const Status checked = CheckManifest(manifest);
  PS_CHECK(checked.ok()) << checked;
  ByteWriter out;
  PutEnvelope(&out, RecordKind::kManifest, manifest.id);
  out.Put(manifest.unix_micros);
  out.PutText(manifest.software);
  out.PutText(manifest.config_json);
  out.Put(manifest.progress.epoch);
  out.Put(manifest.progress.steps);
  out.Put(manifest.progress.samples);
  out.Put(manifest.progress.loss);
  out.Put(manifest.progress.accuracy);
  PutAll(&out, manifest.tensors, PutTensor);
  PutAll(&out, manifest.chunks, PutChunk);
  PutAll(&out, manifest.parts, PutPart);
  out.Put(static_cast<uint32_t>(manifest.job_state.size()));
  out.PutBytes(manifest.job_state);
  SealEnvelope(&out);
  return std::move(out).Take();
}

Result<Manifest> DecodeManifest(CheckpointId id, std::span<const std::byte> bytes) {
  PS_ASSIGN(const std::span<const std::byte> body, OpenEnvelope(bytes, RecordKind::kManifest, id));
  ByteReader in(body);
  Manifest manifest;
  manifest.id = id;
  manifest.unix_micros = in.Get<int64_t>();
  manifest.software = in.GetText();
  manifest.config_json = in.GetText();
  manifest.progress.epoch = in.Get<uint32_t>();
  manifest.progress.steps = in.Get<uint64_t>();
  manifest.progress.samples = in.Get<uint64_t>();
  manifest.progress.loss = in.Get<double>();
  manifest.progress.accuracy = in.Get<double>();
  GetAll(&in, kTensorBytesMin, &manifest.tensors, GetTensor);
  GetAll(&in, kChunkBytes, &manifest.chunks, GetChunk);
  GetAll(&in, kPartBytesMin, &manifest.parts, GetPart);
  const std::span<const std::byte> job_state = in.GetBytes(in.Get<uint32_t>());
  manifest.job_state.assign(job_state.begin(), job_state.end());
  if (!in.is_at_end()) {
    return Status::Corruption("it is longer or shorter than it says");
  }
  if (const Status checked = CheckManifest(manifest); !checked.ok()) {
    return Status::Corruption(std::string(checked.message()));
  }
  return manifest;
}

}  // namespace ps::checkpoint
