#include "provisioner/rental/rental_desk.h"

#include "provisioner/rental/rent_settings.h"

namespace ps::provisioner {
namespace {

RentalAnswer AnswerOf(Provider* provider, const RentalCall& call) {
  RentalAnswer answer;
  switch (call.kind) {
    case RentalCall::Kind::kRent:
      answer.rent = provider->Rent(call.request);
      break;
    case RentalCall::Kind::kList:
      answer.list = provider->List(call.tags);
      break;
    case RentalCall::Kind::kRelease:
      answer.release = provider->Release(call.ids);
      break;
    case RentalCall::Kind::kPrices:
      answer.prices = provider->Prices(call.pools, call.since_us);
      break;
    case RentalCall::Kind::kTidy:
      answer.tidy = provider->Tidy(call.tags);
      break;
  }
  return answer;
}

/// As if the provider had said it.
RentalAnswer NoProvider(const Status& why) {
  const CallEnd end = {CallFault::kCredentials, std::string(why.message()), {}};
  RentalAnswer answer;
  answer.rent.end = answer.list.end = answer.prices.end = end;
  answer.release = answer.tidy = end;
  return answer;
}

/// The job's price, where the provider has none.
void AddPrices(const RentalCall& call, double usd_per_hour, PriceReply* reply) {
  std::set<Pool> told;
  for (const PoolPrice& price : reply->prices) {
    told.insert(price.pool);
  }
  for (const Pool& pool : call.pools) {
    if (usd_per_hour > 0 && !told.contains(pool)) {
      reply->prices.push_back({pool, usd_per_hour, call.since_us});
    }
  }
}

}  // namespace

Result<std::unique_ptr<RentalDesk>> RentalDesk::Open(Options options, RentalNotes* notes) {
  const RentalTime now = {options.time->Now(), options.time->UnixMicros()};
  PS_ASSIGN(RentalBook book, RentalBook::Open(options.rental, notes, now));
  return std::unique_ptr<RentalDesk>(new RentalDesk(std::move(options), std::move(book)));
}

RentalDesk::RentalDesk(Options options, RentalBook book)
    : options_(std::move(options)), book_(std::move(book)) {
  // One more than machines are rented at a time: lists and releases wait for none of them.
  for (size_t i = 0; i < options_.rental.rents_max + 1; i++) {
    threads_.emplace_back([this] { Work(); });
  }
}

RentalDesk::~RentalDesk() {
  is_cancelled_ = true;
  {
    const std::lock_guard lock(mutex_);
    is_closing_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) {
    thread.join();
  }
}

void RentalDesk::Work() {
  Result<std::unique_ptr<Provider>> provider = Status::Unavailable("");
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return is_closing_ || !calls_.empty(); });
    if (is_closing_) {
      return;
    }
    RentalCall call = std::move(calls_.front());
    calls_.pop_front();
    lock.unlock();
    if (!provider.ok()) {
      provider = options_.make_provider([this] { return is_cancelled_.load(); });
    }
    RentalAnswer answer =
        provider.ok() ? AnswerOf(provider->get(), call) : NoProvider(provider.status());
    lock.lock();
    answers_.emplace_back(std::move(call), std::move(answer));
    answered_.notify_all();
  }
}

RentalTime RentalDesk::Now() const {
  return {options_.time->Now(), options_.time->UnixMicros()};
}

void RentalDesk::Ask(const RentalSeat& seat, const proto::WorkerGroup& group) {
  book_.Ask(seat, PoolsOf(options_.rent, group), Now());
}

void RentalDesk::Drop(const RentalSeat& seat, bool is_bad) {
  book_.Drop(seat, is_bad, Now());
}

void RentalDesk::Adopt(const std::set<RentalSeat>& running) {
  book_.Adopt(running, Now());
}

void RentalDesk::End() {
  book_.End(Now());
}

void RentalDesk::Advance() {
  const RentalTime now = Now();
  std::vector<std::pair<RentalCall, RentalAnswer>> answers;
  {
    const std::lock_guard lock(mutex_);
    answers.swap(answers_);
  }
  for (auto& [call, answer] : answers) {
    if (call.kind == RentalCall::Kind::kPrices) {
      AddPrices(call, double{options_.rent.usd_per_hour}, &answer.prices);
    }
    book_.OnAnswer(call, answer, now);
  }
  book_.Tick(now);
  std::vector<RentalCall> calls = book_.TakeCalls(now);
  if (calls.empty()) {
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    for (RentalCall& call : calls) {
      calls_.push_back(std::move(call));
    }
  }
  changed_.notify_all();
}

std::vector<RentalEvent> RentalDesk::TakeEvents() {
  Advance();
  return book_.TakeEvents();
}

void RentalDesk::AwaitAnswer(Duration limit) {
  std::unique_lock lock(mutex_);
  answered_.wait_for(lock, limit, [this] { return !answers_.empty(); });
}

RentalDesk::Summary RentalDesk::summary() const {
  const RentalTime now = Now();
  return {
      book_.machine_count(),
      book_.rented_count(),
      book_.usd(now),
      book_.usd_per_hour(now),
      book_.problem()};
}

}  // namespace ps::provisioner
