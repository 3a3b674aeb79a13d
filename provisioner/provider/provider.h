#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ps/base/time.h"

namespace ps::provisioner {

/// Where a machine can come from. A provider's stock and its prices are those of a pool.
struct Pool {
  std::string type;  // the provider's own name: "g4dn.xlarge"
  std::string zone;  // "us-east-1a"
  bool is_spot = false;

  friend auto operator<=>(const Pool&, const Pool&) = default;
};

/// "g4dn.xlarge spot in us-east-1a".
std::string PoolText(const Pool& pool);

/// What every machine of a request has besides its pool. Empty: the provider's own default.
struct MachineSetup {
  std::string image;
  std::string subnet;          // or several, with commas between: one a zone
  std::string security_group;  // or several, with commas between; or the tags of firewall rules
  std::string key_name;        // of an ssh key that the provider knows
  std::string role;            // that the machine's programs act as
  uint32_t disk_gib = 0;       // 0: as the image has it
  std::string user_data;       // a script that the machine runs at its first boot, as root
  /// The provider itself ends the machine after so long, where it can. 0: never.
  Duration run_max{};
  /// One that shuts itself down stops, and stays with its disk until it is released. Else it ends
  /// for good.
  bool keeps_disk = false;
};

/// One machine, from whichever of the pools has one.
struct RentRequest {
  /// The same text is the same machine: a provider that has seen it gives the one that it made, and
  /// makes no second one. Where the rest of the request differs, it is refused (kMismatch).
  /// 1 to 63 characters of a-z, 0-9 and "-", the first one a letter and the last one no "-".
  /// Only after kUnclear and kThrottled may it be tried again: after every other fault it has no
  /// machine and gets none, and the next try takes another token.
  std::string token;
  /// The one to be tried first in front; at least 1. All are spot, or none is: what a token bought
  /// has to be found again by one call. Of spot pools a provider that knows its stock better may
  /// take another one first (EC2 does).
  std::vector<Pool> pools;
  MachineSetup setup;
  /// On the machine and on its disks from the moment that it is there. Names are of a-z, 0-9, "-"
  /// and "_", values too (at most 63 characters), so that each provider can have them. Names that
  /// begin with "spotps-own-" are the provider's.
  std::map<std::string, std::string> tags;
};

enum class MachineState {
  kStarting,
  kRunning,
  kEnding,  // or stopped by somebody: it goes by itself only if it was released
  kGone,    // told for a while by some providers, then forgotten
};

/// It costs, and can be used or is about to be.
inline bool IsThere(MachineState state) {
  return state == MachineState::kStarting || state == MachineState::kRunning;
}

struct Machine {
  std::string id;     // the provider's; unique, never used again
  std::string token;  // of the request
  Pool pool;          // zone: empty while the provider has not told it
  MachineState state = MachineState::kStarting;
  std::string address;          // reached from outside; empty: none, or not yet
  std::string private_address;  // reached within the provider's network; empty: not yet
  std::map<std::string, std::string> tags;
  int64_t started_us = 0;   // since 1970, by the provider's clock: from when it costs; 0: ask List
  int64_t ended_us = 0;     // likewise, until when it cost; 0: not told, or it still does
  bool is_revoked = false;  // the provider takes, or took, it back
  /// One that the provider takes back before it is so old costs nothing. 0: it costs.
  Duration free_within{};
  std::string why;  // it is ending or gone, in the provider's words
};

/// Why a call did not do what it should, in what differs for who asked.
enum class CallFault {
  kNone,
  kNoStock,      // the pool has no machine now
  kQuota,        // the account's own limit: trying again does not help
  kThrottled,    // too many calls
  kDenied,       // known, but not allowed to: `message` names the permission
  kCredentials,  // not known: no, wrong or expired keys, or a clock that is off
  kMismatch,     // the token was used with another request
  kRefused,      // no such type, zone, image...: the request can't succeed as it is
  kUnclear,      // no answer, or one that does not say: it may have been done or not
};

std::string_view CallFaultName(CallFault fault);

/// How a call went.
struct CallEnd {
  CallFault fault = CallFault::kNone;
  std::string message;  // what, where, what to do; no secret is in it
  Duration wait{};      // kThrottled: not before so long; 0: it did not say

  bool ok() const { return fault == CallFault::kNone; }
};

/// A pool that was asked in vain, although the call as a whole may have got its machine.
struct PoolFault {
  Pool pool;
  CallEnd end;
};

struct RentReply {
  CallEnd end;
  std::optional<Machine> machine;  // exactly when `end` is ok
  std::vector<PoolFault> pool_faults;
};

struct ListReply {
  CallEnd end;
  std::vector<Machine> machines;
};

struct PoolPrice {
  Pool pool;
  double usd_per_hour = 0;
  int64_t since_us = 0;  // since 1970: from when it has this price
};

struct PriceReply {
  CallEnd end;
  std::vector<PoolPrice> prices;  // the newest of a pool last
};

struct CheckLine {
  std::string what;     // "credentials", "permission ec2:CreateFleet", "quota of spot G and VT"
  CallEnd end;          // ok: it is there
  std::string finding;  // "account 1234, user ml", "8 of 64 vCPUs in use"
  std::vector<Pool> pools = {};       // of the request, which alone it is about; empty: all
  std::optional<uint64_t> room = {};  // so many machines of these at most can be rented now
};

/// Rents whole machines. Each call waits for its answer, within the limits of the HTTP client that
/// the provider was made with, so it belongs to a thread that may wait. Nothing is tried again in
/// here but what is harmless and takes no time (a page of a list, a key that expired): what a fault
/// leads to is the caller's to decide. Thread: any one at a time.
///
/// `tests/provisioner/provider/provider_conformance.h` says what holds for all of them.
class Provider {
 public:
  virtual ~Provider() = default;

  /// As jobs write it: "ec2".
  virtual std::string_view name() const = 0;
  /// Returns once the machine exists, long before it runs. kUnclear: it may exist; the same request
  /// with the same token finds out.
  virtual RentReply Rent(const RentRequest& request) = 0;
  /// All machines that carry all of these tags, in every state that the provider still tells of. A
  /// machine that was rented a moment ago may be missing for some seconds.
  virtual ListReply List(const std::map<std::string, std::string>& tags) = 0;
  /// Ends machines for good, at once. One that is gone, or that nobody knows, is no error: one that
  /// was rented a moment ago and was in no list yet may be unknown, and stays, so it has to be
  /// released again. After any fault some of them may have ended.
  virtual CallEnd Release(const std::vector<std::string>& ids) = 0;
  /// What the pools cost from `since_us` (since 1970) on: at least the price of now, where the
  /// provider tells it. A pool without a zone stands for all zones of its type.
  virtual PriceReply Prices(const std::vector<Pool>& pools, int64_t since_us) = 0;
  /// Removes what was made for machines with all of these tags and stays behind when they are gone:
  /// for the end of a run. It costs nothing, but may hold the run's user data.
  virtual CallEnd Tidy(const std::map<std::string, std::string>& tags) = 0;
  /// Whether these could be rented, and by whom, as far as that can be known without renting.
  virtual std::vector<CheckLine> Check(const RentRequest& request) = 0;
};

}  // namespace ps::provisioner
