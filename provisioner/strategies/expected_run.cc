#include "provisioner/strategies/expected_run.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "provisioner/planner/numbers.h"

namespace ps::provisioner {
namespace {

constexpr int kTimesLongerMax = 10;
constexpr int kSeatCells = 1440;  // of ExpectSeat: a minute each of a day

/// One seat of a group over a grid of time: how likely it works, and how often it is revoked.
class SeatGrid {
 public:
  SeatGrid(const RevocableWorkers& group, const RevocationTimes& times, double cell_s)
      : group_(group), is_replaced_(times.is_replaced), cell_s_(cell_s) {
    const double start_up_s = group.start_up_s.value_or(times.start_up_s);
    const double back_s = times.detect_s + start_up_s + times.join_s;
    const double back_cells = std::max(1.0, back_s / cell_s);
    back_cells_ = static_cast<size_t>(back_cells);
    back_share_ = back_cells - std::floor(back_cells);
    survival_.push_back(1);
  }

  /// Goes on by a cell. `works`: share of the cell; `revoked`: how often in it.
  void Next(double* works, double* revoked) {
    if (group_.lifetimes == nullptr) {
      *works = 1;
      *revoked = 0;
      return;
    }
    const size_t cell = births_.size();
    survival_.push_back(group_.lifetimes->SurvivalAt(Hours(cell + 1)));
    births_.push_back(BirthsAt(cell));
    // Replacements begin in the middle of their cell.
    double up = (FirstAt(cell) + FirstAt(cell + 1)) / 2 + births_[cell] / 2;
    double gone = FirstAt(cell) - FirstAt(cell + 1) + births_[cell] * (1 - survival_[1]) / 2;
    for (size_t born = 0; born < cell; ++born) {
      const size_t age = cell - born;
      up += births_[born] * survival_[age];
      gone += births_[born] * (survival_[age - 1] - survival_[age + 1]) / 2;
    }
    revoked_.push_back(gone);
    *works = up;
    *revoked = gone;
  }

 private:
  double Hours(size_t cell) const { return static_cast<double>(cell) * cell_s_ / kSecondsPerHour; }

  /// That the machine it began with is still there.
  double FirstAt(size_t cell) const {
    return 1 - group_.lifetimes->RevokedWithin(group_.age_hours, Hours(cell));
  }

  /// Replacements that begin to work in the cell.
  double BirthsAt(size_t cell) const {
    const auto revoked_before = [&](size_t cells) {
      return cell >= cells ? revoked_[cell - cells] : 0;
    };
    return is_replaced_ ? revoked_before(back_cells_) * (1 - back_share_) +
                              revoked_before(back_cells_ + 1) * back_share_
                        : 0;
  }

  const RevocableWorkers group_;
  const bool is_replaced_;
  const double cell_s_;
  size_t back_cells_ = 0;
  double back_share_ = 0;
  std::vector<double> revoked_;   // by cell
  std::vector<double> births_;    // by cell
  std::vector<double> survival_;  // of a new machine, by age in cells
};

Status CheckRun(
    double steps,
    const std::vector<RevocableWorkers>& groups,
    const RevocationTimes& times,
    double server_usd_per_hour) {
  double steps_per_s = 0;
  for (const RevocableWorkers& group : groups) {
    if (!(group.count >= 0 && group.steps_per_s >= 0 && group.usd_per_hour >= 0 &&
          group.age_hours >= 0 && group.start_up_s.value_or(0) >= 0)) {
      return Status::InvalidArgument("the number of workers in a group must not be negative");
    }
    steps_per_s += group.count * group.steps_per_s;
  }
  if (!(steps > 0 && std::isfinite(steps) && steps_per_s > 0 && std::isfinite(steps_per_s))) {
    return Status::InvalidArgument(
        fmt::format("{} steps at {} steps/s; both must be above 0", steps, steps_per_s));
  }
  if (!(times.detect_s >= 0 && times.start_up_s >= 0 && times.join_s >= 0 && times.lost_s >= 0 &&
        server_usd_per_hour >= 0)) {
    return Status::InvalidArgument(
        "detection, start-up, join, loss and price must not be negative");
  }
  return Status::Ok();
}

}  // namespace

SeatExpectation ExpectSeat(
    const RevocableWorkers& worker, const RevocationTimes& times, double seconds) {
  SeatGrid seat(worker, times, seconds / kSeatCells);
  SeatExpectation sum;
  for (int cell = 0; cell < kSeatCells; ++cell) {
    double works = 0;
    double revoked = 0;
    seat.Next(&works, &revoked);
    sum.works += works / kSeatCells;
    sum.revoked += revoked;
  }
  return sum;
}

std::vector<double> MeanUpShares(const UpShares& seat, double cell_s, int cells) {
  SeatGrid grid(
      {.count = 1, .lifetimes = seat.lifetimes, .age_hours = seat.age_hours},
      {.start_up_s = seat.back_s},
      cell_s);
  std::vector<double> shares;
  double sum = 0;
  for (int cell = 0; cell < cells; ++cell) {
    double works = 0;
    double revoked = 0;
    grid.Next(&works, &revoked);
    sum += works;
    shares.push_back(sum / (cell + 1));
  }
  return shares;
}

double PaidSeconds(
    const RevocableWorkers& worker,
    const RevocationTimes& times,
    double works_s,
    double revoked,
    double seconds) {
  if (!times.is_replaced) {
    return works_s;
  }
  const double start_s = worker.start_up_s.value_or(times.start_up_s) + times.join_s;
  // What starts still when the time is over is given back, and costs no more.
  const double most_s = std::max(works_s, seconds - revoked * times.detect_s);
  return std::min(works_s + revoked * start_s, most_s);
}

Result<RunExpectation> ExpectRun(
    double steps,
    const std::vector<RevocableWorkers>& groups,
    const RevocationTimes& times,
    double server_usd_per_hour) {
  PS_TRY(CheckRun(steps, groups, times, server_usd_per_hour));
  double steps_per_s = 0;
  double usd_per_hour = server_usd_per_hour;
  for (const RevocableWorkers& group : groups) {
    steps_per_s += group.count * group.steps_per_s;
    usd_per_hour += group.count *
                    (group.usd_per_hour + group.usd_per_step * group.steps_per_s * kSecondsPerHour);
  }
  RunExpectation run;
  run.seconds_without = steps / steps_per_s;
  run.usd_without = run.seconds_without * usd_per_hour / kSecondsPerHour;
  const double cell_s = run.seconds_without / kCellsAlone;
  std::vector<SeatGrid> seats;
  for (const RevocableWorkers& group : groups) {
    seats.emplace_back(group, times, cell_s);
  }
  std::vector<SeatExpectation> sums(groups.size());  // `works` in cells
  double left = steps;
  for (int cell = 0; cell < kCellsAlone * kTimesLongerMax; ++cell) {
    double done = 0;
    std::vector<SeatExpectation> now(groups.size());
    for (size_t i = 0; i < groups.size(); ++i) {
      seats[i].Next(&now[i].works, &now[i].revoked);
      done += groups[i].count * groups[i].steps_per_s *
              (now[i].works * cell_s - now[i].revoked * times.lost_s);
    }
    const double share = done >= left * (1 - kSlack) ? left / done : 1;
    run.seconds += share * cell_s;
    for (size_t i = 0; i < groups.size(); ++i) {
      sums[i].works += share * now[i].works;
      sums[i].revoked += share * now[i].revoked;
    }
    left -= done;
    if (share < 1 || left <= steps * kSlack) {
      run.usd = server_usd_per_hour * run.seconds / kSecondsPerHour;
      for (size_t i = 0; i < groups.size(); ++i) {
        const RevocableWorkers& group = groups[i];
        const double works_s = sums[i].works * cell_s;
        const double paid_s = PaidSeconds(group, times, works_s, sums[i].revoked, run.seconds);
        run.usd += group.count * (group.usd_per_hour * paid_s / kSecondsPerHour +
                                  group.usd_per_step * group.steps_per_s * works_s);
        run.revocations += group.count * sums[i].revoked;
      }
      return run;
    }
  }
  return Status::NotFound(fmt::format(
      "revocations make the run more than {} times as long as the {:.0f} s without them; rent some "
      "workers on demand, or other types and zones",
      kTimesLongerMax,
      run.seconds_without));
}

}  // namespace ps::provisioner
