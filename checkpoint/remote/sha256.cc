#include "checkpoint/remote/sha256.h"

#include <bit>
#include <cstring>

namespace ps::checkpoint {
namespace {

constexpr size_t kBlockBytes = 64;
constexpr size_t kRounds = 64;

using State = std::array<uint32_t, 8>;

// The first 32 bits of the fractional parts of the square roots of the first 8 primes, and of the
// cube roots of the first 64.
constexpr State kStart = {
    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
constexpr std::array<uint32_t, kRounds> kConstants = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t ReadBigEndian(const std::byte* bytes) {
  uint32_t word = 0;
  std::memcpy(&word, bytes, sizeof(word));
  return __builtin_bswap32(word);
}

void Mix(const std::byte* block, State* state) {
  std::array<uint32_t, kRounds> words;
  for (size_t i = 0; i < 16; ++i) {
    words[i] = ReadBigEndian(block + 4 * i);
  }
  for (size_t i = 16; i < kRounds; ++i) {
    const uint32_t near = words[i - 2];
    const uint32_t far = words[i - 15];
    words[i] = words[i - 16] + words[i - 7] +
               (std::rotr(far, 7) ^ std::rotr(far, 18) ^ (far >> 3)) +
               (std::rotr(near, 17) ^ std::rotr(near, 19) ^ (near >> 10));
  }
  auto [a, b, c, d, e, f, g, h] = *state;
  for (size_t i = 0; i < kRounds; ++i) {
    const uint32_t first = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) +
                           ((e & f) ^ (~e & g)) + kConstants[i] + words[i];
    const uint32_t second =
        (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + first;
    d = c;
    c = b;
    b = a;
    a = first + second;
  }
  const State mixed = {a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < mixed.size(); ++i) {
    (*state)[i] += mixed[i];
  }
}

}  // namespace

Sha256 Sha256Of(std::span<const std::byte> data) {
  State state = kStart;
  size_t done = 0;
  for (; data.size() - done >= kBlockBytes; done += kBlockBytes) {
    Mix(data.data() + done, &state);
  }
  // The rest, a one bit, zeros, and the length in bits in the last eight bytes.
  std::array<std::byte, 2 * kBlockBytes> end{};
  const std::span<const std::byte> rest = data.subspan(done);
  if (!rest.empty()) {
    std::memcpy(end.data(), rest.data(), rest.size());
  }
  end[rest.size()] = std::byte{0x80};
  const size_t end_bytes = rest.size() + 9 <= kBlockBytes ? kBlockBytes : end.size();
  const uint64_t bits = __builtin_bswap64(uint64_t{data.size()} * 8);
  std::memcpy(end.data() + end_bytes - sizeof(bits), &bits, sizeof(bits));
  for (size_t at = 0; at < end_bytes; at += kBlockBytes) {
    Mix(end.data() + at, &state);
  }
  Sha256 digest;
  for (size_t i = 0; i < state.size(); ++i) {
    const uint32_t word = __builtin_bswap32(state[i]);
    std::memcpy(digest.bytes.data() + 4 * i, &word, sizeof(word));
  }
  return digest;
}

std::string HexOf(const Sha256& digest) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(2 * digest.bytes.size());
  for (const std::byte byte : digest.bytes) {
    text.push_back(kDigits[std::to_integer<size_t>(byte >> 4)]);
    text.push_back(kDigits[std::to_integer<size_t>(byte & std::byte{15})]);
  }
  return text;
}

}  // namespace ps::checkpoint
