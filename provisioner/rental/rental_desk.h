#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "provisioner/provider/provider.h"
#include "provisioner/rental/rental_book.h"
#include "provisioner/rental/rented_hosts.h"
#include "ps/base/time.h"
#include "ps/http/http.h"

namespace ps::provisioner {

/// A run's rented machines: the book, and threads that ask the provider what it says. No call of
/// this class waits for a provider. Thread: one for all but the destructor's, which waits for calls
/// under way to be cancelled.
class RentalDesk final : public RentedHosts {
 public:
  struct Options {
    RentalOptions rental;
    proto::RentConfig rent;
    /// Called by each thread, until it has one. Its calls end soon after `is_cancelled` is true.
    std::function<Result<std::unique_ptr<Provider>>(IsCancelled is_cancelled)> make_provider;
    const TimeSource* time = &SystemTime();
  };

  struct Summary {
    size_t machines = 0;  // that cost now
    size_t rented = 0;    // in the whole run
    double usd = 0;
    double usd_per_hour = 0;  // that are paid now
    std::string problem;      // why nothing is rented; empty: nothing is wrong
  };

  /// `notes` outlives it. Errors: those of RentalBook::Open.
  static Result<std::unique_ptr<RentalDesk>> Open(Options options, RentalNotes* notes);
  ~RentalDesk() override;

  void Ask(const RentalSeat& seat, const proto::WorkerGroup& group) override;
  void Drop(const RentalSeat& seat, bool is_bad) override;
  void Adopt(const std::set<RentalSeat>& running) override;
  std::vector<RentalEvent> TakeEvents() override;

  /// Everything goes back: TakeEvents has to be called until it is over.
  void End();

  bool is_over() const { return book_.is_over(); }

  size_t left_count() const { return book_.left_count(); }

  /// Until the provider has said something, or for `limit`.
  void AwaitAnswer(Duration limit);

  Summary summary() const;

  /// As RentalBook.
  std::optional<RentalMove> TakeMove() { return book_.TakeMove(Now()); }

  std::vector<PoolPrice> prices() const { return book_.prices(Now()); }

  /// Dollars an hour that are paid now for the machine of each seat that has one.
  std::map<RentalSeat, double> seat_usd_per_hour() const { return book_.seat_usd_per_hour(Now()); }

 private:
  RentalDesk(Options options, RentalBook book);

  RentalTime Now() const;
  /// Lets time pass, and hands out calls.
  void Advance();
  void Work();

  const Options options_;
  RentalBook book_;
  std::mutex mutex_;  // of the next four
  std::condition_variable changed_;
  std::condition_variable answered_;
  std::deque<RentalCall> calls_;
  std::vector<std::pair<RentalCall, RentalAnswer>> answers_;
  bool is_closing_ = false;
  std::atomic<bool> is_cancelled_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace ps::provisioner
