#pragma once

namespace ps::provisioner {

// Exit codes of ps_agent that none of our programs has.

inline constexpr int kNotStartedExit = 120;  // the process never ran
inline constexpr int kLostExit = 121;        // it ran, and nobody knows how it ended

}  // namespace ps::provisioner
