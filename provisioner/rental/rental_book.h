#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "provisioner/provider/provider.h"
#include "provisioner/rental/pool_memory.h"
#include "provisioner/rental/pool_watch.h"
#include "provisioner/rental/rental_money.h"
#include "provisioner/rental/rental_note.h"
#include "ps/base/time.h"

namespace ps::provisioner {

/// Tags by which a run's machines are found again.
inline constexpr std::string_view kRunTag = "spotps-run";
inline constexpr std::string_view kRentalTag = "spotps-rental";

/// On the machine of a run's coordinator, which has what the run made.
inline constexpr std::string_view kHeadTag = "spotps-head";

/// The token of a run's rental: what differs between two requests, tags and all, differs in it.
std::string RentalToken(const std::string& run, uint64_t number, const RentRequest& request);

struct RentalOptions {
  std::string run;          // a-z, 0-9 and "-"; no other run has it
  std::vector<Pool> pools;  // whose prices are watched
  MachineSetup setup;
  std::map<std::string, std::string> tags;  // beside those two
  Duration boot_max = std::chrono::minutes(10);
  /// Without a process for so long a machine goes back. A worker that is replaced takes it over
  /// within this time, without another boot.
  Duration idle_max = std::chrono::minutes(1);
  /// A machine that no list tells of so long after it was rented is gone. Before, a release of it
  /// may be lost on the provider.
  Duration visible_max = std::chrono::minutes(1);
  /// The same of one that lists told of and lack for so long; and that was given back.
  Duration untold_max = std::chrono::seconds(30);
  Duration untold_ended_max = std::chrono::seconds(4);
  /// A provider that gives no clear answer for so long fails whoever waits.
  Duration unclear_max = std::chrono::minutes(5);
  size_t rents_max = 4;  // at a time
  RentalMoney::Limits budget;
  double leave_above = 0;  // as PoolWatch
};

/// The two clocks: one for what to do, one for money.
struct RentalTime {
  TimePoint now{};
  int64_t unix_us = 0;
};

/// A call that the provider is to be asked now.
struct RentalCall {
  enum class Kind { kRent, kList, kRelease, kPrices, kTidy };

  Kind kind = Kind::kList;
  uint64_t number = 0;                      // kRent: of the rental
  RentRequest request;                      // kRent
  std::map<std::string, std::string> tags;  // kList, kTidy
  std::vector<std::string> ids;             // kRelease
  std::vector<Pool> pools;                  // kPrices
  int64_t since_us = 0;                     // kPrices
  TimePoint begun{};
};

struct RentalAnswer {
  RentReply rent;
  ListReply list;
  CallEnd release;
  PriceReply prices;
  CallEnd tidy;
};

/// To whoever asked for machines. A seat that was asked for gets kReady or kFailed, once, and after
/// kReady at most one kLost; nothing after it was dropped.
struct RentalEvent {
  enum class Kind { kReady, kFailed, kLost };

  Kind kind = Kind::kReady;
  RentalSeat seat;
  Machine machine;          // kReady, kLost
  std::string why;          // kFailed, kLost: for people
  bool is_revoked = false;  // kLost: the provider took it back
  // kReady: when the provider was asked for the machine; none: that was not for this seat, or
  // another book has asked.
  std::optional<TimePoint> asked_at = {};
};

/// A process is to leave its machine, since another pool is better; it gets one there.
struct RentalMove {
  RentalSeat seat;
  std::string machine;
  std::string why;     // for people
  std::string others;  // pools that there are besides
};

/// Rents a machine for each process of a run that wants one, keeps it while it has a process, and
/// gives all back. It decides, and calls nobody: TakeCalls says what the provider is to be asked,
/// OnAnswer takes what it said, Tick lets time pass. So a simulation runs the same code.
///
/// What holds, whenever the process ends and another book goes on from the notes:
///  - A machine is noted before it is asked for, and a call without a clear answer is repeated with
///    the same token and the same request, so nothing is rented twice.
///  - What carries the run's tag and no note, or is a second machine of one note, is ended by the
///    next list. A machine whose note nobody reads any more ends itself (MachineScript).
///  - Each machine has one process at a time.
/// Pure but for the notes. Thread: one.
class RentalBook {
 public:
  /// Goes on from what `notes` has. The notes outlive the book. Errors: those of Load.
  static Result<RentalBook> Open(RentalOptions options, RentalNotes* notes, RentalTime time);

  /// The process of that seat wants a machine of one of these pools. Once for a seat.
  void Ask(const RentalSeat& seat, const std::vector<Pool>& pools, RentalTime time);
  /// The process has ended, or is not wanted any more: the machine takes another, or goes back. One
  /// that is `bad` goes back at once. Unknown seats are ignored.
  void Drop(const RentalSeat& seat, bool is_bad, RentalTime time);
  /// After Open: processes that still run have their machines; those of all other notes are free.
  void Adopt(const std::set<RentalSeat>& running, RentalTime time);
  /// Nothing is rented any more, and everything goes back.
  void End(RentalTime time);

  void Tick(RentalTime time);
  std::vector<RentalCall> TakeCalls(RentalTime time);
  void OnAnswer(const RentalCall& call, const RentalAnswer& answer, RentalTime time);
  std::vector<RentalEvent> TakeEvents();
  /// The next process that is to move, if it is time; one at a time. If it stays, it is told again
  /// after a while.
  std::optional<RentalMove> TakeMove(RentalTime time);

  /// After End: no machine of the run, and nothing that was made for them, is left, as far as the
  /// provider tells.
  bool is_over() const;
  size_t machine_count() const;  // that cost now
  /// Machines that are there, or may be, as far as it is known: those as well that were told to end
  /// and are told of all the same, and those of calls without an answer.
  size_t left_count() const;
  size_t rented_count() const;  // ever
  /// US dollars an hour: what is paid now, and for each machine that is being asked for the price
  /// of the dearest one that may come.
  double usd_per_hour(RentalTime time) const;
  /// What is paid now for the machine of each seat that has one.
  std::map<RentalSeat, double> seat_usd_per_hour(RentalTime time) const;
  /// The prices of now of the pools of RentalOptions, where the provider tells one.
  std::vector<PoolPrice> prices(RentalTime time) const;
  double usd(RentalTime time) const;  // of the whole run until now

  /// Whether the provider has told all prices of what has ended.
  bool is_cost_sure() const { return money_.unsettled().empty(); }

  /// The last fault that keeps it from renting anything, for people; empty: none.
  const std::string& problem() const { return problem_; }

 private:
  static constexpr Duration kReleaseAgain = std::chrono::seconds(30);

  enum class Stage {
    kAsked,    // the provider is asked, again and again, until it answers
    kSought,   // nobody asks any more, but a machine may have been made: lists tell
    kBooting,  // there is a machine
    kReady,
    kEnding,  // it was released, and is told of
  };

  struct Rental {
    RentalNote note;
    std::vector<Pool> wanted;  // that its process may have; those of the note are some of them
    Stage stage = Stage::kAsked;
    std::optional<RentalSeat> seat;  // that has it, or waits for it
    Machine machine;
    TimePoint since{};                    // of the stage
    TimePoint free_at{};                  // it has no seat since
    TimePoint known_at{};                 // from when lists have to tell of it, but for a grace
    bool was_told = false;                // by a list
    std::optional<TimePoint> untold_at;   // since when lists lack it
    TimePoint ask_at{};                   // kAsked: not before
    TimePoint release_at{};               // kEnding: not before
    std::optional<TimePoint> trouble_at;  // kAsked: the provider gives no clear answer since
    Duration wait{};                      // kAsked: the last one before another attempt
    bool is_asking = false;               // a call is under way
    bool is_sent = false;                 // some call was made: there may be a machine
    std::optional<TimePoint> asked_at;    // that first call, while the seat that it was for has it
    bool was_unclear = false;
    bool is_releasing = false;
    bool is_released = false;  // the provider has said so
    // It had ended when the book was opened, and no list has told of it since: whether an earlier
    // life has released it is not known.
    bool is_from_before = false;
  };

  RentalBook(RentalOptions options, RentalNotes* notes)
      : options_(std::move(options)),
        notes_(notes),
        money_(options_.budget, notes),
        watch_(options_.leave_above) {}

  RentRequest RequestOf(const RentalNote& note) const;
  void Fail(const RentalSeat& seat, std::string why);
  /// One without a seat whose machine is, or will be, of one of the pools.
  Rental* FreeRental(const std::vector<Pool>& pools, RentalTime time);
  void Give(Rental* rental, RentalTime time);
  void Free(Rental* rental, RentalTime time);
  void RentFor(const RentalSeat& seat, const std::vector<Pool>& pools, RentalTime time);
  void TakeRents(RentalTime time, std::vector<RentalCall>* calls);
  bool HasNoMachine() const;
  /// What is compared with budget.usd_per_hour: US dollars an hour for all machines that are there
  /// or were asked for.
  double LimitedRate(RentalTime time) const;
  void TakeReleases(RentalTime time, std::vector<RentalCall>* calls);

  void OnRent(const RentalCall& call, const RentReply& reply, RentalTime time);
  void OnRentFault(uint64_t number, const RentReply& reply, RentalTime time);
  void OnList(const RentalCall& call, const ListReply& reply, RentalTime time);
  bool IsMissing(Rental* rental, bool is_told, TimePoint asked) const;
  /// What the provider tells of a rental (null: nothing) in a list that was asked for at `asked`.
  void See(uint64_t number, const Machine* machine, TimePoint asked, RentalTime time);
  void OnRelease(const RentalCall& call, const CallEnd& end, RentalTime time);
  void OnPrices(const RentalCall& call, const PriceReply& reply, RentalTime time);
  std::vector<Pool> PricedPools() const;

  void WatchPools(RentalTime time);
  std::vector<Pool> WithoutLeft(std::vector<Pool> pools) const;
  bool IsToLeave(const Rental& rental, RentalTime time) const;
  void NoteOrigin(Rental* rental, const Machine& machine, RentalTime time);
  void HaveMachine(Rental* rental, const Machine& machine, RentalTime time);
  void GoBack(Rental* rental, RentalTime time);
  /// The provider has taken the machine, or does not know it.
  void LoseMachine(Rental* rental, const std::string& why, bool is_revoked, RentalTime time);
  /// Nobody asks any more. A machine may have been made: then lists are to tell.
  void StopAsking(uint64_t number, RentalTime time);
  /// It costs nothing from now on, or from when the provider tells.
  void CloseBill(Rental* rental, const std::string& why, RentalTime time);
  void Forget(uint64_t number);
  /// The account as a whole has to wait: too many calls, or it is not allowed to.
  void Hold(const CallEnd& end, RentalTime time);
  Duration ListEvery() const;

  RentalOptions options_;
  RentalNotes* notes_;
  std::map<uint64_t, Rental> rentals_;       // whose machine is there, or may be
  std::map<std::string, TimePoint> strays_;  // ids of machines that nobody asked for, to be ended
  std::vector<RentalEvent> events_;
  PoolMemory memory_;
  RentalMoney money_;
  PoolWatch watch_;
  std::optional<TimePoint> moved_at_;
  std::string problem_;
  uint64_t next_number_ = 1;
  int64_t first_us_ = 0;  // the oldest machine's start
  size_t rented_count_ = 0;
  size_t rents_ = 0;  // in flight
  bool is_listing_ = false;
  bool is_pricing_ = false;
  bool is_price_told_ = false;  // the last time that it was asked
  bool is_ending_ = false;
  bool is_tidying_ = false;
  bool is_tidy_ = false;
  TimePoint tidy_at_{};
  bool has_listed_ = false;  // since End, or since it was opened
  TimePoint ended_at_{};
  TimePoint held_until_{};
  Duration held_for_{};
  TimePoint list_at_{};
  TimePoint price_at_{};
};

}  // namespace ps::provisioner
