#include "ps/net/internal/half_open.h"

#include <utility>

#include "ps/proto/limits.h"

namespace ps::net {

HalfOpen::Verdict HalfOpen::Judge(const std::string& address, TimePoint now) const {
  if (waiting_.size() < places_) {
    return {true, std::nullopt};
  }
  const bool is_known = IsKnown(address);
  std::map<std::string, uint32_t> counts;
  for (const auto& [peer, waiting] : waiting_) {
    if (waiting.is_refused) {
      return {true, peer};
    }
    ++counts[waiting.address];
  }
  // The address with most connections that the newcomer may displace; unknown addresses first.
  const auto rank = [&](const std::string& other) {
    return std::pair(!IsKnown(other), counts[other]);
  };
  const std::string* most = nullptr;
  for (const auto& [other, count] : counts) {
    const bool may_go = is_known || !IsKnown(other) || other == address;
    if (may_go && (most == nullptr || rank(other) > rank(*most))) {
      most = &other;
    }
  }
  if (most == nullptr) {
    return {};
  }
  const auto own = counts.find(address);
  const uint32_t own_count = own == counts.end() ? 0 : own->second;
  const bool is_at_once =
      *most != address && ((is_known && !IsKnown(*most)) || counts[*most] > own_count + 1);
  for (const auto& [peer, waiting] : waiting_) {
    if (waiting.address == *most) {
      const bool gives_way = is_at_once || now - waiting.since > patience_;
      return gives_way ? Verdict{true, peer} : Verdict{};
    }
  }
  return {};
}

void HalfOpen::Add(proto::PeerId peer, const std::string& address, TimePoint now) {
  waiting_[peer] = {address, now, false};
}

void HalfOpen::NoteRefused(proto::PeerId peer) {
  if (const auto found = waiting_.find(peer); found != waiting_.end()) {
    found->second.is_refused = true;
  }
}

void HalfOpen::Remove(proto::PeerId peer) {
  waiting_.erase(peer);
}

void HalfOpen::Know(const std::string& address) {
  if (known_.size() < proto::kConnectionsMax) {
    known_.insert(address);
  }
}

}  // namespace ps::net
