#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "provisioner/provider/provider.h"
#include "provisioner/rental/rental_note.h"
#include "ps/base/status.h"
#include "ps/base/time.h"

namespace ps::provisioner {

/// The stable machine that a run's coordinator and servers are on. It is noted before it is asked
/// for, so that a process that comes after a crash finds it, and none is rented twice. Each call
/// waits for the provider. Thread: one.
class HeadMachine {
 public:
  struct Options {
    std::string run;      // its tag; no other run has it
    RentRequest request;  // without a token
    Duration boot_max = std::chrono::minutes(10);
    /// A provider that gives no clear answer for so long fails the call.
    Duration unclear_max = std::chrono::minutes(3);
    /// A list need not tell of a new machine before, and a release may be lost.
    Duration visible_max = std::chrono::minutes(1);
    double usd_per_hour = 0;  // where the provider tells no price; 0: not known
    const TimeSource* time = &SystemTime();
    /// Lets so much time pass. False: somebody wants the call to end (kCancelled).
    std::function<bool(Duration)> wait;
    /// For people: what it waits for, whenever that changes. Null: nobody listens.
    std::function<void(const std::string&)> say;
  };

  /// Both outlive it.
  HeadMachine(Options options, Provider* provider, RentalNotes* notes)
      : options_(std::move(options)), provider_(provider), notes_(notes) {}

  /// The machine, once it has an address. Rents it if that was not done yet.
  /// Errors: kCancelled; kInvalidArgument (it can't be rented as the job has it); kUnavailable (no
  /// stock, no quota, no answer, it does not boot, has stopped, is not told of); kNotFound (it was
  /// there, and the provider says that it is gone).
  Result<Machine> Rent();

  /// What the provider tells of it; nothing: it was never rented, or is gone for good.
  /// Errors: kUnavailable, those of the notes.
  Result<std::optional<Machine>> Look();

  /// Ends it for good. Returns what it has cost: 0 when it never was, nothing when nobody tells its
  /// price. Errors: kCancelled, kUnavailable: it may be there, and go on costing.
  Result<std::optional<double>> GiveBack();

 private:
  Result<std::optional<RentalNote>> Noted() const;
  Result<RentalNote> NewNote();
  Status Ask(RentalNote* note, bool is_new);
  /// The newest list; a machine of the run that is not the noted one is released.
  Result<std::optional<Machine>> Find(RentalNote* note);
  Result<Machine> AwaitBoot(RentalNote* note);
  /// `ended_us`: as the provider told it; 0: now. Returns what GiveBack does.
  Result<std::optional<double>> CloseBill(
      RentalNote* note, int64_t ended_us, const std::string& why);
  /// Asked again for a while, where the provider may do better.
  PriceReply AskPrices(const RentalNote& note) const;
  std::map<std::string, std::string> RunTags() const;
  void Say(const std::string& text) const;

  const Options options_;
  Provider* const provider_;
  RentalNotes* const notes_;
  bool has_strays_ = false;  // by the newest list
};

}  // namespace ps::provisioner
