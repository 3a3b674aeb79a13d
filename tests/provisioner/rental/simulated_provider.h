#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "provisioner/provider/provider.h"

namespace ps::provisioner {

/// A provider on virtual time, whose machines outlive whoever rented them.
class SimulatedProvider {
 public:
  struct Host {
    Machine machine;
    std::string request;  // what its token stands for
    std::string token;
    int64_t told_us = 0;      // lists tell of it from then on
    int64_t running_us = 0;   // 0: never
    int64_t gone_us = 0;      // kEnding until then
    int64_t busy_us = 0;      // when it last had a process
    bool is_stopped = false;  // ended by itself, and stays with its disk until it is released
  };

  /// `has_later_faults`: some machines that end stop and stay, prices are denied with the rest, and
  /// what is taken back early may be free.
  /// Without them a seed that was found before there were any means what it did.
  explicit SimulatedProvider(uint64_t seed, bool has_later_faults = false);

  RentReply Rent(const RentRequest& request, int64_t now_us);
  ListReply List(const std::map<std::string, std::string>& tags, int64_t now_us) const;
  CallEnd Release(const std::vector<std::string>& ids, int64_t now_us);
  PriceReply Prices(const std::vector<Pool>& pools, int64_t since_us, int64_t now_us) const;

  /// Stock and prices change, machines boot, are taken back, end themselves.
  void Step(int64_t now_us);
  void TakeBack(Host* host, int64_t now_us);
  /// From now on nothing goes wrong but what machines do by themselves.
  void Calm();

  std::vector<Pool> pools() const;

  std::map<std::string, Host>& hosts() { return hosts_; }

  bool IsThere(const std::string& id) const;
  size_t alive() const;
  size_t stopped() const;
  double usd_per_hour(int64_t now_us) const;
  /// Of all machines that ever were. Each hour of one has the price that held when it began.
  double usd(int64_t now_us) const;

  /// Whether a token that was used gives the machine that it made; else it makes another.
  bool honours_tokens() const { return honours_tokens_; }

  bool has_fixed_prices() const { return price_moves_ == 0; }

  /// A machine without a process for so long ends itself.
  static constexpr int64_t kWatchUs = 15 * 60'000'000LL;

 private:
  struct PoolState {
    bool has_stock = true;
    std::map<int64_t, double> prices;  // from when
    double reclaim = 0;                // probability a step
  };

  bool Draw(double probability);
  int64_t Between(int64_t from, int64_t to);
  double PriceAt(const Pool& pool, int64_t us) const;
  void End(Host* host, const std::string& why, int64_t now_us);

  std::mt19937_64 random_;
  std::mt19937_64 later_random_;
  std::map<Pool, PoolState> pools_;
  std::map<std::string, Host> hosts_;
  std::map<std::string, std::string> by_token_;
  size_t quota_ = 0;
  double never_boots_ = 0;
  double throttles_ = 0;
  double price_moves_ = 0;
  int64_t denied_until_us_ = 0;
  double denies_ = 0;
  double stops_ = 0;
  Duration free_within_{};
  bool has_later_faults_ = false;
  bool is_calm_ = false;
  bool honours_tokens_ = true;
  uint64_t next_ = 1;
};

}  // namespace ps::provisioner
