#include "worker/data/text/pretokens.h"

#include <algorithm>
#include <array>

#include "ps/base/utf8.h"
#include "worker/data/text/unicode_classes.h"

namespace ps::worker {
namespace {

constexpr std::array<std::string_view, 7> kContractions = {
    "'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};

struct Character {
  size_t bytes;
  CharacterClass kind;
};

/// The first of a text that is not empty.
Character First(std::string_view text) {
  const size_t bytes = std::max<size_t>(Utf8Bytes(text), 1);
  const auto lead = static_cast<unsigned char>(text[0]);
  // A lead byte of n bytes, above one, begins with n ones and a zero.
  char32_t code = bytes == 1 ? lead : lead & (0x7fU >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    code = (code << 6) | (static_cast<unsigned char>(text[i]) & 0x3fU);
  }
  return {bytes, ClassOf(code)};
}

}  // namespace

size_t PretokenBytes(std::string_view text) {
  if (text[0] == '\'') {
    const auto* const found = std::ranges::find_if(
        kContractions, [&](std::string_view end) { return text.starts_with(end); });
    if (found != kContractions.end()) {
      return found->size();
    }
  }
  Character next = First(text);
  size_t end = next.bytes;
  if (text[0] == ' ' && text.size() > 1) {
    const Character behind = First(text.substr(1));
    if (behind.kind != CharacterClass::kSpace) {  // the space belongs to what is behind it
      next = behind;
      end += behind.bytes;
    }
  }
  const CharacterClass kind = next.kind;
  size_t last_bytes = end;  // of the last character, or of all when there is only one
  while (end < text.size() && end < kPretokenBytesMax) {
    next = First(text.substr(end));
    if (next.kind != kind) {
      break;
    }
    last_bytes = next.bytes;
    end += next.bytes;
  }
  // The last of several spaces is left to what follows.
  const bool leaves_last = kind == CharacterClass::kSpace && end < text.size() &&
                           next.kind != CharacterClass::kSpace && end > last_bytes;
  return leaves_last ? end - last_bytes : end;
}

}  // namespace ps::worker
