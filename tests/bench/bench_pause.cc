// How long training stands still for a checkpoint: ours, taken while pushes arrive; a full dump of
// the same bytes, for which they wait; and torch.save. A push is a part of a chunk that is applied
// on the shard's loop, one after another as from a worker that sends without a break. The network
// is left out: checkpoints do nothing to it.

#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <functional>
#include <future>
#include <memory>
#include <span>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "checkpoint/storage/rocksdb_storage.h"
#include "ps/base/buffer.h"
#include "ps/base/check.h"
#include "ps/base/random.h"
#include "ps/net/loop.h"
#include "ps/server/checkpoints/checkpointer.h"
#include "ps/server/checkpoints/disk_thread.h"
#include "ps/server/chunks/chunk_store.h"
#include "tests/bench/disk.h"
#include "tests/bench/harness.h"

namespace ps::bench {
namespace {

using checkpoint::ChunkFormat;
using checkpoint::Codec;

constexpr ShardId kShard(0);
constexpr uint64_t kBuffers = 2;  // the value and its momentum

/// A shard with parameters and momentum, its loop and its disk.
class Shard {
 public:
  explicit Shard(uint64_t elements)
      : disk_(
            storage_,
            kShard,
            &loop_,
            {[this](server::ChunkWritten written) {
               End(checkpointer_->OnChunkWritten(store_, std::move(written)));
             },
             [this](server::PartWritten written) {
               End(checkpointer_->OnPartWritten(std::move(written)));
             },
             [this](server::Restored restored) { restored_.set_value(restored.what.ok()); }}) {
    proto::ShardSetup setup;
    TensorSpec tensor;
    tensor.name = "w";
    tensor.shape = {static_cast<int64_t>(elements)};
    tensor.init = InitKind::kNormal;
    tensor.init_scale = 0.05F;
    setup.tensors = {tensor};
    const uint64_t chunk = uint64_t{proto::ServerConfig().chunk_kib} * 1024 / sizeof(float);
    for (uint64_t begin = 0; begin < elements; begin += chunk) {
      const ChunkKey key = MakeChunkKey(0, static_cast<uint32_t>(begin / chunk));
      const auto count = static_cast<uint32_t>(std::min(chunk, elements - begin));
      setup.placement.chunks.push_back({key, count, static_cast<int64_t>(begin), kShard});
      keys_.push_back(key);
    }
    server::ShardSettings settings;
    settings.optimizer.lr = 0.01F;
    settings.optimizer.momentum = 0.9F;
    auto store = server::ChunkStore::Make(kShard, settings, setup);
    PS_CHECK(store.ok()) << store.status();
    store_ = std::move(store).value();
    store_.SetBeforeUpdate([this](size_t i) { checkpointer_->BeforeUpdate(store_, i); });
    checkpointer_ = std::make_unique<server::Checkpointer>(kShard, &disk_);
    checkpointer_->BeginLife(++life_, 0, server::ChunkRefs(store_.size()));
    Random random(1);
    for (uint64_t i = 0; i < chunk; ++i) {
      gradient_.push_back(0.02F * static_cast<float>(random.Unit() - 0.5));
    }
    thread_ = std::thread([this] { loop_.Run(); });
  }

  Shard(const Shard&) = delete;
  Shard& operator=(const Shard&) = delete;

  ~Shard() {
    loop_.Stop();
    thread_.join();
  }

  uint64_t bytes() const { return store_.parameter_bytes() * kBuffers; }

  const server::ChunkStore& store() const { return store_; }

  /// Forgets all checkpoints. Requires: none is under way.
  void BeginAnew(const std::string& path, ChunkFormat format) {
    OnLoop([&] {
      disk_.Use({path, format});
      checkpointer_->BeginLife(++life_, 0, server::ChunkRefs(store_.size()));
      checkpoint_ = 0;
    });
  }

  void BeginCheckpoint() {
    OnLoop([&] {
      is_done_ = false;
      checkpointer_->Begin({++checkpoint_, 0, {checkpoint_ - 1}}, {}, store_);
    });
  }

  /// Seconds from the arrival of the next push until it is applied.
  double Push() {
    const double begin = WallSeconds();
    OnLoop([&] {
      const server::Chunk& chunk = store_.chunks()[next_chunk_];
      const auto count = static_cast<size_t>(store_.RangeOf(chunk, next_part_).element_count);
      store_.Apply(next_chunk_, next_part_, std::span(gradient_).first(count), {1e-4F});
      ++next_part_;
      if (next_part_ == chunk.part_count) {
        store_.FinishUpdate(next_chunk_);
        next_part_ = 0;
        next_chunk_ = (next_chunk_ + 1) % store_.size();
      }
    });
    return WallSeconds() - begin;
  }

  /// CPU time of its thread, so far.
  double LoopCpuSeconds() {
    timespec now = {};
    OnLoop([&] { PS_CHECK(::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) == 0); });
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  }

  bool is_done() const { return is_done_; }

  /// Requires: no push is under way.
  const proto::CheckpointReport& report() const { return checkpointer_->report(); }

  /// Seconds to read the newest checkpoint back.
  double Restore() {
    restored_ = std::promise<bool>();
    std::future<bool> is_ok = restored_.get_future();
    const double begin = WallSeconds();
    OnLoop([&] { disk_.Restore({life_, checkpoint_, 1, keys_}); });
    PS_CHECK(is_ok.get());
    return WallSeconds() - begin;
  }

 private:
  /// Waits until the loop has done it.
  void OnLoop(const std::function<void()>& work) {
    std::promise<void> done;
    const Status posted = loop_.Post([&] {
      work();
      done.set_value();
    });
    PS_CHECK(posted.ok()) << posted;
    done.get_future().wait();
  }

  void End(bool has_report) { is_done_ = is_done_ || has_report; }

  std::shared_ptr<checkpoint::Storage> storage_ = checkpoint::MakeRocksDbStorage();
  net::Loop loop_;
  server::ChunkStore store_;  // this and what follows: the loop's
  std::unique_ptr<server::Checkpointer> checkpointer_;
  std::vector<ChunkKey> keys_;
  std::vector<float> gradient_;
  std::promise<bool> restored_;
  std::atomic<bool> is_done_ = true;
  uint64_t life_ = 0;
  uint64_t checkpoint_ = 0;
  size_t next_chunk_ = 0;
  uint32_t next_part_ = 0;
  server::DiskThread disk_;
  std::thread thread_;
};

/// Pushes, and what they waited.
struct Pushes {
  Samples latency;
  double cpu_seconds = 0;  // of the shard's thread

  void AddUntil(Shard* shard, const std::function<bool()>& is_enough) {
    const double cpu = shard->LoopCpuSeconds();
    while (!is_enough()) {
      latency.values.push_back(shard->Push());
    }
    cpu_seconds += shard->LoopCpuSeconds() - cpu;
  }

  double CpuOfOne() const { return cpu_seconds / static_cast<double>(latency.values.size()); }
};

/// One way of keeping the parameters.
struct Way {
  explicit Way(std::string name_of_it) : name(std::move(name_of_it)) {}

  std::string name;
  Samples stalled;  // seconds that training lost
  Samples p99;      // of a push meanwhile, seconds; and the longest
  Samples longest;
  uint64_t bytes = 0;
  Samples back;  // seconds to have it in memory again, from the page cache

  void Add(const Pushes& pushes) {
    if (!pushes.latency.values.empty()) {
      p99.values.push_back(pushes.latency.Quantile(0.99));
      longest.values.push_back(pushes.latency.Most());
    }
  }
};

/// Ours. What training loses is the time of the shard's thread beyond that of as many pushes when
/// nothing is written: CPU time, for it waits for nothing else. `none` gets pushes for as long
/// without a checkpoint.
void MeasureOurs(Shard* shard, const ChunkFormat& format, Way* none, Way* way) {
  const Folder folder;
  shard->BeginAnew(folder.path(), format);
  Pushes during;
  const double begin = WallSeconds();
  shard->BeginCheckpoint();
  during.AddUntil(shard, [&] { return shard->is_done(); });
  const double seconds = WallSeconds() - begin;
  PS_CHECK(shard->report().code == StatusCode::kOk) << shard->report().message;
  Pushes without;
  const double until = WallSeconds() + seconds;
  without.AddUntil(
      shard, [&] { return WallSeconds() >= until && !without.latency.values.empty(); });
  none->Add(without);
  way->Add(during);
  const auto count = static_cast<double>(during.latency.values.size());
  way->stalled.values.push_back(std::max(0.0, during.cpu_seconds - count * without.CpuOfOne()));
  way->bytes = shard->report().sizes.written_bytes;
  way->back.values.push_back(shard->Restore());
}

/// A file that is written in one go and synced, as by a program that stops training for it.
void MeasureDump(const Shard& shard, Way* way) {
  const Folder folder;
  std::vector<std::span<const std::byte>> pieces;
  for (const server::Chunk& chunk : shard.store().chunks()) {
    pieces.push_back(chunk.value.bytes());
    pieces.push_back(chunk.slots[0].bytes());
  }
  const double begin = WallSeconds();
  WriteRaw(folder, pieces);
  way->stalled.values.push_back(WallSeconds() - begin);
  const double read = WallSeconds();
  std::vector<Buffer> buffers;
  std::vector<std::span<std::byte>> places;
  for (const auto& piece : pieces) {
    buffers.emplace_back(piece.size());
    places.push_back(buffers.back().bytes());
  }
  ReadRaw(folder, places);
  way->back.values.push_back(WallSeconds() - read);
  way->bytes = shard.bytes();
}

/// torch.save in a process of its own. Returns why there is nothing.
std::string MeasureTorch(const Shard& shard, Way* way, Way* synced) {
  const Folder folder;
  std::ostringstream command;
  command << "/usr/bin/python3 " PS_TORCH_DUMP " " << folder.path() << "/dump " << kBuffers << " "
          << shard.bytes() / kBuffers / sizeof(float) << " 2>&1";
  std::FILE* const pipe = ::popen(command.str().c_str(), "r");
  PS_CHECK(pipe != nullptr);
  std::string text;
  char piece[256];
  while (std::fgets(piece, sizeof piece, pipe) != nullptr) {
    text += piece;
  }
  if (::pclose(pipe) != 0) {
    return text;
  }
  std::istringstream words(text);
  double save = 0;
  double sync = 0;
  double load = 0;
  words >> save >> sync >> load >> way->bytes;
  way->stalled.values.push_back(save);
  synced->stalled.values.push_back(sync);
  way->back.values.push_back(load);
  synced->bytes = way->bytes;
  synced->back = way->back;
  return "";
}

std::string Milliseconds(const Samples& seconds) {
  return seconds.values.empty() ? "" : Fixed(1000 * seconds.Median(), 1);
}

std::string SpreadOrNothing(const Samples& seconds) {
  return seconds.values.empty() ? "" : Spread(seconds, 2);
}

std::string Ratio(const Samples& seconds, const Samples& others) {
  return seconds.values.empty() ? "" : Spread(PercentOf(seconds, others), 0);
}

void AddRow(const Way& way, const Way& dump, Table* table) {
  table->Add(
      {way.name,
       SpreadOrNothing(way.stalled),
       Ratio(way.stalled, dump.stalled),
       Milliseconds(way.p99),
       Milliseconds(way.longest),
       Fixed(static_cast<double>(way.bytes) / 1e6, 0),
       SpreadOrNothing(way.back),
       Ratio(way.back, dump.back)});
}

int Main(int argc, char** argv) {
  const BenchArguments arguments = ReadBenchArguments(argc, argv);
  Shard shard(arguments.is_tiny ? 300'000 : 100'000'000);
  Pushes warm_up;
  warm_up.AddUntil(
      &shard, [&] { return warm_up.latency.values.size() > 4 * shard.store().size(); });
  Way none("no checkpoint");
  Way full("checkpoint, codec none");
  Way half("checkpoint, codec none, slots bf16");
  Way compressed("checkpoint, codec zstd");
  Way dump("full dump: write and fdatasync");
  Way torch("torch.save");
  Way torch_synced("torch.save and fsync");
  std::string why_not_torch;
  for (uint32_t run = 0; run < arguments.runs; ++run) {
    MeasureDump(shard, &dump);
    MeasureOurs(&shard, {Codec::kNone}, &none, &full);
    MeasureOurs(&shard, {Codec::kNone, checkpoint::SlotType::kBf16}, &none, &half);
    MeasureOurs(&shard, {Codec::kZstd}, &none, &compressed);
    why_not_torch = MeasureTorch(shard, &torch, &torch_synced);
  }
  Table table(
      {std::to_string(shard.bytes() / 2'000'000) + " MB and as much momentum",
       "training stalls, s",
       "% of dump",
       "push p99, ms",
       "longest, ms",
       "MB written",
       "back, s",
       "% of dump"});
  for (const Way* way : {&none, &full, &half, &compressed, &dump, &torch, &torch_synced}) {
    AddRow(*way, dump, &table);
  }
  table.Print();
  if (!why_not_torch.empty()) {
    std::printf("torch.save is left out: %s", why_not_torch.c_str());
  }
  return 0;
}

}  // namespace
}  // namespace ps::bench

int main(int argc, char** argv) {
  return ps::bench::Main(argc, argv);
}
