// What encodings cost on one core: GB/s of f32 that are encoded, with and without error feedback,
// and decoded, beside memcpy of the same values in the same run. Parts of a frame's size, one after
// another, in far more memory than the last-level cache.

#include <cmath>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "ps/base/buffer.h"
#include "ps/base/random.h"
#include "ps/codec/encoding.h"
#include "tests/bench/harness.h"

namespace ps::bench {
namespace {

constexpr size_t kPartElements = (512 << 10) / sizeof(float);

struct Memory {
  explicit Memory(size_t parts)
      : parts(parts),
        values(parts * kPartBytes),
        residual(parts * kPartBytes),
        bytes(parts * kPartBytes) {
    Random random(1);
    for (float& value : values.floats()) {
      const double sign = random.Chance(0.5) ? -1 : 1;
      value = static_cast<float>(sign * std::exp(4 * random.Unit() - 12) * random.Unit());
    }
    for (float& value : residual.floats()) {
      value = 0;
    }
  }

  static constexpr size_t kPartBytes = kPartElements * sizeof(float);

  std::span<float> PartOf(Buffer* buffer, size_t part) const {
    return buffer->floats().subspan(part * kPartElements, kPartElements);
  }

  std::span<std::byte> BytesOf(size_t part, const codec::Encoding& encoding) {
    return bytes.bytes().subspan(part * kPartBytes, encoding.SizeOf(kPartElements));
  }

  const size_t parts;
  Buffer values;
  Buffer residual;
  Buffer bytes;
};

/// GB/s of f32 that go through `work`, part by part.
double RateOf(const Memory& memory, const std::function<void(size_t part)>& work) {
  const double begin = WallSeconds();
  for (size_t part = 0; part < memory.parts; ++part) {
    work(part);
  }
  const double seconds = WallSeconds() - begin;
  return static_cast<double>(memory.parts * Memory::kPartBytes) / seconds * 1e-9;
}

void Main(const BenchArguments& arguments) {
  Memory memory(arguments.is_tiny ? 2 : 256);
  const std::vector<std::string> names = {"f32", "bf16", "int8", "int4", "topk:0.01", "topk:0.1"};
  std::vector<codec::Encoding> encodings;
  std::vector<std::function<double()>> candidates;
  for (const std::string& name : names) {
    const auto parsed = codec::ParseEncoding(name);
    Require(parsed.ok(), name);
    const codec::Encoding encoding = *parsed;
    encodings.push_back(encoding);
    for (const bool has_residual : {false, true}) {
      candidates.emplace_back([&memory, encoding, has_residual] {
        return RateOf(memory, [&](size_t part) {
          codec::Encode(
              encoding,
              memory.PartOf(&memory.values, part),
              has_residual ? memory.PartOf(&memory.residual, part) : std::span<float>(),
              memory.BytesOf(part, encoding));
        });
      });
    }
    // Into one place, as a shard does.
    candidates.emplace_back([&memory, encoding] {
      for (size_t part = 0; part < memory.parts; ++part) {
        codec::Encode(
            encoding, memory.PartOf(&memory.values, part), {}, memory.BytesOf(part, encoding));
      }
      return RateOf(memory, [&](size_t part) {
        const Status status = codec::Decode(
            encoding, memory.BytesOf(part, encoding), memory.PartOf(&memory.residual, 0));
        Require(status.ok(), "decoded");
      });
    });
  }
  const std::vector<Samples> results = MeasureInTurn(arguments.runs, candidates);
  std::printf(
      "codec: one thread, %zu parts of 512 KiB of f32, %u runs, GB/s of f32, median (MAD)\n",
      memory.parts,
      arguments.runs);
  Table table({"encoding", "of f32", "encode", "with error feedback", "decode"});
  for (size_t i = 0; i < names.size(); ++i) {
    const double size = static_cast<double>(encodings[i].SizeOf(kPartElements));
    table.Add(
        {names[i],
         Fixed(size / Memory::kPartBytes * 100, 2) + " %",
         Spread(results[3 * i], 2),
         Spread(results[3 * i + 1], 2),
         Spread(results[3 * i + 2], 2)});
  }
  table.Print();
}

}  // namespace
}  // namespace ps::bench

int main(int argc, char** argv) {
  ps::bench::Main(ps::bench::ReadBenchArguments(argc, argv));
  return 0;
}
