#include "provisioner/rental/head_machine.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "provisioner/provider/request_check.h"
#include "provisioner/rental/price_history.h"
#include "provisioner/rental/rental_book.h"

namespace ps::provisioner {
namespace {

constexpr uint64_t kNumber = 1;  // a run has one head
constexpr Duration kAskAgainMin = std::chrono::seconds(1);
constexpr Duration kAskAgainMax = std::chrono::seconds(20);
constexpr Duration kLook = std::chrono::seconds(3);
constexpr Duration kPricesMax = std::chrono::seconds(30);

std::string TextOf(const CallEnd& end) {
  return end.message.empty() ? std::string(CallFaultName(end.fault)) : end.message;
}

/// The provider may do better in a moment.
bool IsPassing(CallFault fault) {
  return fault == CallFault::kThrottled || fault == CallFault::kUnclear;
}

/// A machine costs a minute at least: nothing is a price that nobody has told.
std::optional<double> CostOf(const RentalNote& note) {
  return note.usd > 0 ? std::optional(note.usd) : std::nullopt;
}

Status Cancelled() {
  return Status::Cancelled("interrupted");
}

}  // namespace

void HeadMachine::Say(const std::string& text) const {
  if (options_.say != nullptr) {
    options_.say(text);
  }
}

std::map<std::string, std::string> HeadMachine::RunTags() const {
  return {{std::string(kRunTag), options_.run}};
}

Result<std::optional<RentalNote>> HeadMachine::Noted() const {
  PS_ASSIGN(const std::vector<RentalNote> notes, notes_->Load());
  const auto it = std::ranges::find(notes, kNumber, &RentalNote::number);
  return it == notes.end() ? std::nullopt : std::optional(*it);
}

Result<RentalNote> HeadMachine::NewNote() {
  RentalNote note;
  note.number = kNumber;
  note.pools = options_.request.pools;
  note.token = RentalToken(options_.run, kNumber, options_.request);
  PS_TRY(notes_->Write(note));
  return note;
}

Status HeadMachine::Ask(RentalNote* note, bool is_new) {
  RentRequest request = options_.request;
  request.token = note->token;
  request.tags.merge(RunTags());
  const TimePoint give_up_at = options_.time->Now() + options_.unclear_max;
  bool may_exist = !is_new;
  for (Duration wait = kAskAgainMin;; wait = std::min(wait * 2, kAskAgainMax)) {
    const RentReply reply = provider_->Rent(request);
    if (reply.machine) {
      note->machine = reply.machine->id;
      note->pool = reply.machine->pool;
      note->started_us = reply.machine->started_us;
      notes_->Write(*note).Ignore("its tag finds it as well");
      return Status::Ok();
    }
    if (!IsPassing(reply.end.fault)) {
      // A call without an answer may have made it: then GiveBack finds out.
      if (!may_exist && reply.end.fault != CallFault::kMismatch) {
        notes_->Remove(kNumber).Ignore("the next one asks for the same, with the same token");
      }
      const bool is_wrong =
          reply.end.fault == CallFault::kRefused || reply.end.fault == CallFault::kMismatch ||
          reply.end.fault == CallFault::kCredentials || reply.end.fault == CallFault::kDenied;
      const std::string why = "the head machine can't be rented: " + TextOf(reply.end);
      return is_wrong ? Status::InvalidArgument(why) : Status::Unavailable(why);
    }
    may_exist = may_exist || reply.end.fault == CallFault::kUnclear;
    if (options_.time->Now() + wait > give_up_at) {
      return Status::Unavailable(fmt::format(
          "the provider does not say whether there is a head machine: {}", TextOf(reply.end)));
    }
    Say(fmt::format("waiting for the provider: {}", TextOf(reply.end)));
    if (!options_.wait(std::max(wait, std::min(reply.end.wait, kAskAgainMax)))) {
      return Cancelled();
    }
  }
}

Result<std::optional<Machine>> HeadMachine::Find(RentalNote* note) {
  const TimePoint give_up_at = options_.time->Now() + options_.unclear_max;
  ListReply list = provider_->List(RunTags());
  while (!list.end.ok()) {
    if (!IsPassing(list.end.fault) || options_.time->Now() + kLook > give_up_at) {
      return Status::Unavailable("the provider does not tell its machines: " + TextOf(list.end));
    }
    if (!options_.wait(kLook)) {
      return Cancelled();
    }
    list = provider_->List(RunTags());
  }
  std::optional<Machine> found;
  std::vector<std::string> strays;
  for (const Machine& machine : list.machines) {
    if (note->machine.empty() && IsThere(machine.state)) {
      note->machine = machine.id;  // a call without an answer has made it
    }
    if (machine.id == note->machine) {
      found = machine;
    } else if (IsThere(machine.state)) {
      strays.push_back(machine.id);
    }
  }
  has_strays_ = !strays.empty();
  if (has_strays_) {
    provider_->Release(strays);
  }
  if (found) {
    const RentalNote before = *note;
    note->pool = found->pool.zone.empty() ? note->pool : found->pool;
    note->started_us = found->started_us != 0 ? found->started_us : note->started_us;
    if (*note != before) {
      notes_->Write(*note).Ignore("the next list tells it again");
    }
  }
  return found;
}

Result<Machine> HeadMachine::AwaitBoot(RentalNote* note) {
  const TimePoint begun = options_.time->Now();
  Say(fmt::format("{} ({}) boots", note->machine, PoolText(note->pool)));
  while (true) {
    PS_ASSIGN(const std::optional<Machine> machine, Find(note));
    const Duration waited = options_.time->Now() - begun;
    if (!machine && waited > options_.visible_max) {
      return Status::Unavailable(fmt::format(
          "the provider does not tell of the head machine {}; are these the credentials, and the "
          "account, that it was rented with? If it is gone, psctl attach --forget says so",
          note->machine));
    }
    if (machine && machine->state == MachineState::kGone) {
      const std::string why = machine->why.empty() ? "it was ended" : machine->why;
      PS_TRY(CloseBill(note, machine->ended_us, why).status());
      return Status::NotFound(fmt::format("the head machine {} is gone: {}", note->machine, why));
    }
    if (machine && !IsThere(machine->state)) {
      return Status::Unavailable(fmt::format(
          "the head machine {} is ending, or has stopped{}; one that has stopped keeps its disk: "
          "start it again to fetch what is on it, or end it",
          note->machine,
          machine->why.empty() ? "" : " (" + machine->why + ")"));
    }
    if (machine && machine->state == MachineState::kRunning &&
        !(machine->address.empty() && machine->private_address.empty())) {
      return *machine;
    }
    if (waited > options_.boot_max) {
      return Status::Unavailable(fmt::format(
          "the head machine {} has not booted for {:.0f} s (launch.rent.boot_s)",
          note->machine,
          Seconds(waited)));
    }
    if (!options_.wait(kLook)) {
      return Cancelled();
    }
  }
}

Result<Machine> HeadMachine::Rent() {
  PS_ASSIGN(std::optional<RentalNote> note, Noted());
  const bool is_new = !note;
  if (is_new) {
    PS_ASSIGN(note, NewNote());
  }
  if (note->ended_us != 0) {
    return Status::NotFound(
        fmt::format("the head machine {} is gone: {}", note->machine, note->why));
  }
  if (note->machine.empty()) {
    PS_TRY(Ask(&*note, is_new));
  }
  return AwaitBoot(&*note);
}

Result<std::optional<Machine>> HeadMachine::Look() {
  PS_ASSIGN(std::optional<RentalNote> note, Noted());
  if (!note || note->ended_us != 0) {
    return std::optional<Machine>();
  }
  PS_ASSIGN(std::optional<Machine> machine, Find(&*note));
  return machine && machine->state == MachineState::kGone ? std::nullopt : std::move(machine);
}

PriceReply HeadMachine::AskPrices(const RentalNote& note) const {
  const TimePoint give_up_at = options_.time->Now() + kPricesMax;
  PriceReply told = provider_->Prices({note.pool}, note.started_us);
  while (IsPassing(told.end.fault) && options_.time->Now() + kLook < give_up_at &&
         options_.wait(kLook)) {
    told = provider_->Prices({note.pool}, note.started_us);
  }
  return told;
}

Result<std::optional<double>> HeadMachine::CloseBill(
    RentalNote* note, int64_t ended_us, const std::string& why) {
  PriceHistory prices;
  note->ended_us = ended_us != 0 ? ended_us : options_.time->UnixMicros();
  const PriceReply told = AskPrices(*note);
  for (const PoolPrice& price : told.prices) {
    prices.Add(price);
  }
  if (told.prices.empty() && options_.usd_per_hour > 0) {
    prices.Add({note->pool, options_.usd_per_hour, note->started_us});
  }
  note->why = why;
  note->usd = prices.Cost(note->pool, note->started_us, note->ended_us);
  PS_TRY(notes_->Write(*note));
  provider_->Tidy(RunTags());  // what stays costs nothing
  return CostOf(*note);
}

Result<std::optional<double>> HeadMachine::GiveBack() {
  PS_ASSIGN(std::optional<RentalNote> note, Noted());
  if (!note) {
    return std::optional(0.0);
  }
  if (note->ended_us != 0) {
    return CostOf(*note);
  }
  const TimePoint begun = options_.time->Now();
  TimePoint told_at = begun;
  int64_t ended_us = 0;
  bool was_there = false;
  bool is_released = false;
  CallEnd released;
  while (true) {
    PS_ASSIGN(const std::optional<Machine> machine, Find(&*note));
    const TimePoint now = options_.time->Now();
    was_there = was_there || machine.has_value();
    if (machine) {
      told_at = now;
      ended_us = machine->ended_us;
    }
    // A stopped one is told like one that ends: it has to be released all the same.
    const bool is_gone = machine ? !IsThere(machine->state) && is_released
                                 : now - told_at > (was_there ? 2 * kLook : options_.visible_max);
    if (is_gone && !machine && !was_there && !note->machine.empty()) {
      return Status::Unavailable(fmt::format(
          "the provider does not tell of the head machine {}, and it may go on costing; are these "
          "the credentials, and the account, that it was rented with? If it is gone, psctl attach "
          "--forget says so",
          note->machine));
    }
    if (is_gone && !has_strays_) {
      if (note->machine.empty()) {
        PS_TRY(notes_->Remove(kNumber));
        return std::optional(0.0);
      }
      return CloseBill(&*note, ended_us, "given back");
    }
    if (now - begun > options_.visible_max + options_.unclear_max) {
      return Status::Unavailable(fmt::format(
          "the head machine {} may be there, and go on costing: {}",
          note->machine,
          released.ok() ? "it was told to end, and is there" : TextOf(released)));
    }
    if (!note->machine.empty()) {
      released = provider_->Release({note->machine});
      is_released = is_released || released.ok();
    }
    if (!options_.wait(kLook)) {
      return Cancelled();
    }
  }
}

}  // namespace ps::provisioner
