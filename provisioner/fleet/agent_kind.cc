#include "provisioner/fleet/agent_kind.h"

#include <array>
#include <chrono>
#include <cstddef>

namespace ps::provisioner {
namespace {

constexpr uint64_t kAnswerSeconds = 30;
constexpr uint64_t kAnswerSecondsMax = 3600;

}  // namespace

std::span<const AgentKind* const> AgentKinds() {
  static const std::array<const AgentKind*, 3> kinds = {
      &SshKind(), &SlurmKind(), &KubernetesKind()};
  return kinds;
}

const AgentKind* AgentKindOf(proto::LauncherKind launcher) {
  static_assert(static_cast<size_t>(proto::LauncherKind::kLocal) == 0);
  if (proto::IsRented(launcher)) {
    return &SshKind();
  }
  const auto number = static_cast<size_t>(launcher);
  return number == 0 ? nullptr : AgentKinds()[number - 1];
}

Result<Duration> AnswerLimit(const Flags& flags) {
  uint64_t seconds = kAnswerSeconds;
  if (flags.Has("answer-s")) {
    PS_ASSIGN(seconds, flags.Number("answer-s", 1, kAnswerSecondsMax));
  }
  return Duration(std::chrono::seconds(seconds));
}

}  // namespace ps::provisioner
