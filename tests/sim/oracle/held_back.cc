#include "tests/sim/oracle/held_back.h"

#include "ps/base/check.h"

namespace ps::sim {

void HeldBack::Take(
    Incarnation worker,
    Step step,
    ChunkKey key,
    std::span<const float> gradient,
    const proto::StepSettings& settings) {
  std::vector<float>& residual = residuals_[{worker, key}];
  residual.resize(gradient.size());
  before_[{worker, key}] = residual;
  std::vector<float>& arrives = arrives_[{{worker, step}, key}];
  arrives.resize(gradient.size());
  const codec::Encoding& encoding = settings.push;
  for (uint32_t part = 0; part < parts_.CountOf(gradient.size()); ++part) {
    const auto [begin, count] = parts_.At(gradient.size(), part);
    std::vector<std::byte> bytes(encoding.SizeOf(count));
    codec::Encode(
        encoding, gradient.subspan(begin, count), std::span(residual).subspan(begin, count), bytes);
    const Status status = codec::Decode(encoding, bytes, std::span(arrives).subspan(begin, count));
    PS_CHECK(status.ok()) << status;
  }
  if (!encoding.is_lossy() || !settings.has_feedback) {
    residual.assign(residual.size(), 0);  // what was kept has gone with this step
  }
}

void HeldBack::HandOver(
    Incarnation worker, Step step, ChunkKey key, std::span<const float> gradient) {
  const std::vector<float>& before = before_.at({worker, key});
  std::vector<float>& arrives = arrives_.at({{worker, step}, key});
  for (size_t i = 0; i < gradient.size(); ++i) {
    arrives[i] = gradient[i] + before[i];
  }
  std::vector<float>& residual = residuals_.at({worker, key});
  residual.assign(residual.size(), 0);
}

void HeldBack::OnResume(Incarnation inherited_max) {
  residuals_.clear();
  before_.clear();
  std::erase_if(
      arrives_, [&](const auto& entry) { return entry.first.first.first > inherited_max; });
}

}  // namespace ps::sim
