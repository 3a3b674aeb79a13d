// What the store of a shard takes from the disk: full checkpoints against a file that is written in
// one go and synced, restoring against reading that file, bytes on the disk against bytes that
// changed, and what deltas save of parameters as SGD with momentum leaves them. The disk is the one
// of the folder for temporary files.

#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/shard_store.h"
#include "checkpoint/storage/rocksdb_storage.h"
#include "ps/base/check.h"
#include "ps/base/random.h"
#include "ps/base/text.h"
#include "tests/bench/disk.h"
#include "tests/bench/harness.h"

namespace ps::bench {
namespace {

using checkpoint::ChunkFormat;
using checkpoint::ChunkRef;
using checkpoint::Codec;
using checkpoint::ShardStore;

constexpr size_t kChunkElements = 65'536;  // 256 KiB, and as much of momentum

/// Parameters and momentum of a shard, trained on noise.
class Shard {
 public:
  explicit Shard(size_t chunks) : value_(chunks), momentum_(chunks) {
    for (size_t c = 0; c < chunks; ++c) {
      for (size_t i = 0; i < kChunkElements; ++i) {
        value_[c].push_back(0.05F * Normal());
        momentum_[c].push_back(0);
      }
    }
  }

  size_t size() const { return value_.size(); }

  uint64_t bytes() const { return size() * kChunkElements * 2 * sizeof(float); }

  /// SGD with momentum 0.9, as of PyTorch, on gradients of about a hundredth.
  void Step(size_t chunk, float lr) {
    for (size_t i = 0; i < kChunkElements; ++i) {
      momentum_[chunk][i] = 0.9F * momentum_[chunk][i] + 0.01F * Normal();
      value_[chunk][i] -= lr * momentum_[chunk][i];
    }
    ++version_;
  }

  checkpoint::ChunkImage ImageOf(size_t chunk, bool has_momentum = true) const {
    checkpoint::ChunkImage image;
    image.key = ChunkKey(chunk);
    image.version = version_;
    image.value = value_[chunk];
    if (has_momentum) {
      image.slots[0] = momentum_[chunk];
    }
    return image;
  }

 private:
  float Normal() {
    const double u = 1.0 - random_.Unit();
    return static_cast<float>(std::sqrt(-2.0 * std::log(u)) * std::cos(6.28318 * random_.Unit()));
  }

  Random random_{1};
  std::vector<std::vector<float>> value_;
  std::vector<std::vector<float>> momentum_;
  Version version_ = 0;
};

/// A store in a folder of its own, with the refs of its newest checkpoint.
class Written {
 public:
  Written() {
    auto store =
        ShardStore::Open(*storage_, folder_.path(), ShardId(0), checkpoint::OpenMode::kWrite);
    PS_CHECK(store.ok()) << store.status();
    store_ = std::move(store).value();
  }

  /// A checkpoint in which chunks [0, changed) are new. Returns the bytes of their records.
  uint64_t Write(const Shard& shard, size_t changed, ChunkFormat format, bool has_momentum = true) {
    ++id_;
    const bool is_first = refs_.empty();
    refs_.resize(shard.size());
    for (size_t c = 0; c < changed; ++c) {
      const auto ref = store_->PutChunk(
          id_, shard.ImageOf(c, has_momentum), is_first ? nullptr : &refs_[c], format);
      PS_CHECK(ref.ok()) << ref.status();
      refs_[c] = *ref;
    }
    checkpoint::PartRecord part;
    part.chunks = refs_;
    const auto summary = store_->CommitPart(id_, part);
    PS_CHECK(summary.ok()) << summary.status();
    return summary->stats.written_bytes;
  }

  void Read() {
    for (const ChunkRef& ref : refs_) {
      const auto data = store_->ReadChunk(ref);
      PS_CHECK(data.ok()) << data.status();
    }
  }

  const Folder& folder() const { return folder_; }

 private:
  Folder folder_;
  std::unique_ptr<checkpoint::Storage> storage_ = checkpoint::MakeRocksDbStorage();
  std::unique_ptr<ShardStore> store_;
  std::vector<ChunkRef> refs_;
  checkpoint::CheckpointId id_ = 0;
};

std::vector<std::span<const std::byte>> PiecesOf(const Shard& shard) {
  std::vector<std::span<const std::byte>> pieces;
  for (size_t c = 0; c < shard.size(); ++c) {
    const checkpoint::ChunkImage image = shard.ImageOf(c);
    pieces.push_back(std::as_bytes(image.value));
    pieces.push_back(std::as_bytes(image.slots[0]));
  }
  return pieces;
}

/// One thing that is measured: what each run of it took.
class Meter {
 public:
  double Run(const std::function<void()>& work) {
    const double wall = WallSeconds();
    const double cpu = CpuSeconds();
    work();
    cpu_.values.push_back(CpuSeconds() - cpu);
    return WallSeconds() - wall;
  }

  /// CPU time of all threads, in the runs and the warm-up.
  const Samples& cpu() const { return cpu_; }

 private:
  Samples cpu_;
};

/// `work` against `raw`, each with what comes before it and is not measured.
struct Contest {
  std::string name;
  std::function<void()> prepare;
  std::function<void()> work;
  std::function<void()> prepare_raw;
  std::function<void()> raw;
};

void Add(const BenchArguments& arguments, const Contest& contest, double mib, Table* table) {
  Meter meter;
  Meter raw_meter;
  const std::vector<Samples> seconds = MeasureInTurn(
      arguments.runs,
      {[&] {
         contest.prepare();
         return meter.Run(contest.work);
       },
       [&] {
         contest.prepare_raw();
         return raw_meter.Run(contest.raw);
       }});
  Samples rate;
  for (const double s : seconds[0].values) {
    rate.values.push_back(mib / s);
  }
  const double gib = mib / 1024;
  table->Add(
      {contest.name,
       Spread(rate, 0),
       Spread(PercentOf(seconds[1], seconds[0]), 0),
       Fixed(meter.cpu().Median() / gib, 2),
       Fixed(raw_meter.cpu().Median() / gib, 2)});
}

void MeasureDisk(const BenchArguments& arguments, const Shard& shard, Table* table) {
  const double mib = static_cast<double>(shard.bytes()) / (1U << 20);
  const Folder raw;
  std::unique_ptr<Written> written;
  const auto write = [&] { written->Write(shard, shard.size(), {Codec::kNone}); };
  Add(arguments,
      {.name = "write and sync",
       .prepare = [&] { written = std::make_unique<Written>(); },
       .work = write,
       .prepare_raw = [] {},
       .raw = [&] { WriteRaw(raw, PiecesOf(shard)); }},
      mib,
      table);
  Add(arguments,
      {.name = "read and verify, cold page cache",
       .prepare = [&] { written->folder().Forget(); },
       .work = [&] { written->Read(); },
       .prepare_raw = [&] { raw.Forget(); },
       .raw = [&] { ReadThrough(raw); }},
      mib,
      table);
  Add(arguments,
      {.name = "read and verify, warm page cache",
       .prepare = [] {},
       .work = [&] { written->Read(); },
       .prepare_raw = [] {},
       .raw = [&] { ReadThrough(raw); }},
      mib,
      table);
}

/// Half of the chunks change between checkpoints, without compression.
void CountBytes(Shard* shard) {
  Written written;
  written.Write(*shard, shard->size(), {Codec::kNone});
  const uint64_t before = written.folder().bytes();
  constexpr int kCheckpoints = 5;
  const size_t changed = (shard->size() + 1) / 2;
  for (int i = 0; i < kCheckpoints; ++i) {
    for (size_t c = 0; c < changed; ++c) {
      shard->Step(c, 0.1F);
    }
    written.Write(*shard, changed, {Codec::kNone});
  }
  const uint64_t bytes_changed = kCheckpoints * changed * kChunkElements * 2 * sizeof(float);
  const double ratio =
      static_cast<double>(written.folder().bytes() - before) / static_cast<double>(bytes_changed);
  std::printf("\nbytes on the disk over bytes that changed, without compression: %.4f\n\n", ratio);
}

/// So many steps between checkpoints; full records among the deltas are counted, too.
void CountDeltas(int steps, bool has_momentum, Table* table) {
  constexpr int kCheckpoints = 9;  // a whole chain
  Shard shard(1);
  for (int i = 0; i < 200; ++i) {
    shard.Step(0, 0.1F);
  }
  Written written;
  written.Write(shard, 1, {Codec::kZstd}, has_momentum);
  uint64_t stored = 0;
  for (int i = 0; i < kCheckpoints; ++i) {
    for (int s = 0; s < steps; ++s) {
      shard.Step(0, 0.1F);
    }
    stored += written.Write(shard, 1, {Codec::kZstd}, has_momentum);
  }
  const double logical = kCheckpoints * kChunkElements * sizeof(float) * (has_momentum ? 2.0 : 1.0);
  table->Add(
      {Plural(static_cast<uint64_t>(steps), "step") + " apart, " +
           (has_momentum ? "parameters and momentum" : "parameters alone"),
       Fixed(logical / static_cast<double>(stored), 2)});
}

int Main(int argc, char** argv) {
  const BenchArguments arguments = ReadBenchArguments(argc, argv, {.has_rows = true});
  Shard shard(arguments.is_tiny ? 4 : 512);
  if (arguments.Wants("disk")) {
    Table disk({FormatBytes(shard.bytes()), "MiB/s", "% of raw", "CPU s/GiB", "raw CPU s/GiB"});
    MeasureDisk(arguments, shard, &disk);
    disk.Print();
  }
  if (arguments.Wants("bytes")) {
    CountBytes(&shard);
  }
  if (!arguments.Wants("deltas")) {
    return 0;
  }
  Table deltas({"checkpoints with zstd and deltas", "bytes in memory over bytes written"});
  for (const int steps : {1, 10, 100}) {
    CountDeltas(steps, false, &deltas);
    CountDeltas(steps, true, &deltas);
  }
  deltas.Print();
  return 0;
}

}  // namespace
}  // namespace ps::bench

int main(int argc, char** argv) {
  return ps::bench::Main(argc, argv);
}
