#pragma once

#include <cstdint>

namespace ps::worker {

/// What splits a text: Unicode's categories L* and N*, its property White_Space, and the rest.
enum class CharacterClass : uint8_t { kOther, kLetter, kNumber, kSpace };

/// The class of a code point, whether assigned or not. The table is in the program, so that workers
/// on machines with different locales agree.
CharacterClass ClassOf(char32_t character);

}  // namespace ps::worker
