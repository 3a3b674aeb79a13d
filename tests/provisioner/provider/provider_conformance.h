#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "provisioner/provider/provider.h"
#include "provisioner/rental/price_history.h"
#include "ps/json/json_value.h"

// What holds of every provider. A test file brings a Cloud, whose server takes orders as
// tests/provisioner/provider/cloud.py describes them, and instantiates the suite for it.

namespace ps::provisioner {

enum class Keys { kRight, kUnknown, kWrongSecret, kExpireOnce };

/// A provider's service on this machine. One for all tests of a suite.
class Cloud {
 public:
  virtual ~Cloud() = default;

  /// Why it can't be tried here; empty: it can.
  virtual std::string why_not() const { return ""; }

  /// False: it has no service that takes orders, and one machine of each pool.
  virtual bool is_remote() const { return true; }

  /// An order to the server. One that is not remote starts anew whenever it is opened.
  virtual void Order(const std::string& /*json*/) {}

  /// GET /book.
  virtual JsonValue Book() { return {}; }

  virtual std::unique_ptr<Provider> Open(Keys keys) = 0;
  /// Two pools with stock, the first one cheaper; the setup is one that the service takes.
  virtual RentRequest Request(const std::string& token) const = 0;
};

using CloudFactory = std::unique_ptr<Cloud> (*)();

class ProviderTest : public ::testing::TestWithParam<CloudFactory> {
 protected:
  static void TearDownTestSuite() { cloud_.reset(); }

  void SetUp() override {
    if (cloud_ == nullptr || factory_ != GetParam()) {
      cloud_.reset();
      factory_ = GetParam();
      cloud_ = factory_();
    }
    if (!cloud_->why_not().empty()) {
      GTEST_SKIP() << cloud_->why_not();
    }
    cloud_->Order(R"({"reset": true})");
    provider_ = cloud_->Open(Keys::kRight);
  }

  static RentRequest Request(const std::string& token = "run-worker-1") {
    return cloud_->Request(token);
  }

  /// "TYPE spot in ZONE", as orders call it.
  static std::string PoolName(size_t pool) { return PoolText(Request().pools[pool]); }

  static void SetStock(size_t pool, int count) {
    cloud_->Order("{\"stock\": {\"" + PoolName(pool) + "\": " + std::to_string(count) + "}}");
  }

  static void SetFault(const std::string& call, const std::string& kind, const char* more = "") {
    cloud_->Order(
        "{\"faults\": [{\"call\": \"" + call + "\", \"kind\": \"" + kind + "\"" + more + "}]}");
  }

  /// Those that the service's book has, alive or not.
  static std::vector<std::string> Rented() {
    const JsonValue book = cloud_->Book();
    std::vector<std::string> ids;
    for (const JsonValue& machine : book.Find("machines")->children) {
      ids.push_back(machine.Find("id")->text);
    }
    return ids;
  }

  std::vector<Machine> Listed(const std::map<std::string, std::string>& tags = {{"run", "r1"}}) {
    const ListReply list = provider_->List(tags);
    EXPECT_TRUE(list.end.ok()) << list.end.message;
    return list.machines;
  }

  std::vector<std::string> Living() {
    std::vector<std::string> ids;
    for (const Machine& machine : Listed()) {
      if (machine.state != MachineState::kGone) {
        ids.push_back(machine.id);
      }
    }
    return ids;
  }

  static std::unique_ptr<Cloud> cloud_;
  static CloudFactory factory_;
  std::unique_ptr<Provider> provider_;
};

std::unique_ptr<Cloud> ProviderTest::cloud_;
CloudFactory ProviderTest::factory_ = nullptr;

/// For those with a service that can fail.
class RemoteProviderTest : public ProviderTest {};

/// For those that tell prices.
class PricedProviderTest : public ProviderTest {};

TEST_P(ProviderTest, AMachineIsRentedListedAndReleased) {
  const RentRequest request = Request();
  const RentReply rent = provider_->Rent(request);
  ASSERT_TRUE(rent.end.ok()) << rent.end.message;
  ASSERT_TRUE(rent.machine.has_value());
  EXPECT_EQ(rent.machine->pool, request.pools.front());
  EXPECT_EQ(rent.machine->token, request.token);
  const std::vector<Machine> listed = Listed();
  ASSERT_EQ(listed.size(), 1U);
  EXPECT_EQ(listed.front().id, rent.machine->id);
  EXPECT_EQ(listed.front().token, request.token);
  EXPECT_EQ(listed.front().pool, request.pools.front());
  EXPECT_EQ(listed.front().state, MachineState::kRunning);
  EXPECT_EQ(listed.front().tags, request.tags) << "the provider's own are not told";
  EXPECT_NE(listed.front().address, "");
  EXPECT_GT(listed.front().started_us, 1'600'000'000'000'000);
  const CallEnd end = provider_->Release({rent.machine->id});
  EXPECT_TRUE(end.ok()) << end.message;
  EXPECT_THAT(Living(), testing::IsEmpty());
}

TEST_P(ProviderTest, ATokenIsOneMachineHoweverOftenItIsAsked) {
  const RentReply first = provider_->Rent(Request());
  const RentReply second = provider_->Rent(Request());
  ASSERT_TRUE(first.end.ok() && second.end.ok()) << first.end.message << second.end.message;
  EXPECT_EQ(first.machine->id, second.machine->id);
  EXPECT_EQ(Living().size(), 1U);
  const RentReply other = provider_->Rent(Request("run-worker-2"));
  ASSERT_TRUE(other.end.ok()) << other.end.message;
  EXPECT_NE(first.machine->id, other.machine->id);
  EXPECT_EQ(Living().size(), 2U);
}

TEST_P(ProviderTest, ATokenIsNotForAnotherRequest) {
  ASSERT_TRUE(provider_->Rent(Request()).end.ok());
  RentRequest turned = Request();
  std::swap(turned.pools[0], turned.pools[1]);
  RentRequest retagged = Request();
  retagged.tags["seat"] = "9";
  RentRequest larger = Request();
  larger.setup.user_data += "# more";
  for (const RentRequest& request : {turned, retagged, larger}) {
    const RentReply rent = provider_->Rent(request);
    EXPECT_EQ(rent.end.fault, CallFault::kMismatch) << rent.end.message;
    EXPECT_FALSE(rent.machine.has_value());
  }
  EXPECT_EQ(Living().size(), 1U);
}

TEST_P(ProviderTest, RequestsThatAreNoneAreRefusedBeforeAnythingIsAsked) {
  std::vector<RentRequest> wrong(7, Request());
  wrong[0].token = "Run_1";
  wrong[1].token = "";
  wrong[2].pools.clear();
  wrong[3].pools[1].is_spot = !wrong[3].pools[0].is_spot;
  wrong[4].tags["Name"] = "x";
  wrong[5].tags["spotps-own-token"] = "x";
  wrong[6].tags["a"] = "b c";
  for (const RentRequest& request : wrong) {
    const RentReply rent = provider_->Rent(request);
    EXPECT_EQ(rent.end.fault, CallFault::kRefused) << rent.end.message;
    EXPECT_THAT(rent.end.message, testing::HasSubstr("cannot rent: "));
  }
  EXPECT_THAT(Living(), testing::IsEmpty());
}

TEST_P(ProviderTest, WithoutStockTheNextPoolIsTakenAndTheFullOneTold) {
  SetStock(0, 0);
  if (!cloud_->is_remote()) {
    ASSERT_TRUE(provider_->Rent(Request("taken")).end.ok());  // it has one of each
  }
  const RentReply rent = provider_->Rent(Request());
  ASSERT_TRUE(rent.end.ok()) << rent.end.message;
  EXPECT_EQ(rent.machine->pool, Request().pools[1]);
  ASSERT_EQ(rent.pool_faults.size(), 1U);
  EXPECT_EQ(rent.pool_faults.front().pool, Request().pools[0]);
  EXPECT_EQ(rent.pool_faults.front().end.fault, CallFault::kNoStock);
  // And the same again: the lost answer of such a call has to be found, too.
  const RentReply again = provider_->Rent(Request());
  ASSERT_TRUE(again.end.ok()) << again.end.message;
  EXPECT_EQ(again.machine->id, rent.machine->id);
}

TEST_P(RemoteProviderTest, StockThatComesBackMakesNoSecondMachineOfAToken) {
  for (const auto& [after, whole_call] :
       {std::pair(", \"after\": 0", "false"),
        std::pair(", \"after\": 1", "false"),
        std::pair(", \"after\": 1", "true")}) {
    cloud_->Order(std::string("{\"reset\": true, \"whole_call\": ") + whole_call + "}");
    provider_ = cloud_->Open(Keys::kRight);
    SetStock(0, 0);
    SetFault("rent", "lost", after);
    RentReply rent = provider_->Rent(Request());
    SetStock(0, 5);
    for (int i = 0; i < 5 && !rent.end.ok(); ++i) {
      rent = provider_->Rent(Request());
    }
    ASSERT_TRUE(rent.end.ok()) << rent.end.message;
    EXPECT_EQ(Rented().size(), 1U);
    EXPECT_EQ(Rented().front(), rent.machine->id);
  }
}

TEST_P(ProviderTest, WhenAllPoolsAreFullThatIsSaidOfEach) {
  SetStock(0, 0);
  SetStock(1, 0);
  if (!cloud_->is_remote()) {
    ASSERT_TRUE(provider_->Rent(Request("taken")).end.ok());
    ASSERT_TRUE(provider_->Rent(Request("taken-too")).end.ok());
  }
  for (const bool is_whole_call : {false, true}) {
    cloud_->Order(is_whole_call ? R"({"whole_call": true})" : R"({"whole_call": false})");
    const RentReply rent = provider_->Rent(Request(is_whole_call ? "one" : "two"));
    EXPECT_EQ(rent.end.fault, CallFault::kNoStock) << rent.end.message;
    EXPECT_FALSE(rent.machine.has_value());
    std::set<Pool> full;
    for (const PoolFault& fault : rent.pool_faults) {
      EXPECT_EQ(fault.end.fault, CallFault::kNoStock);
      full.insert(fault.pool);
    }
    EXPECT_THAT(full, testing::UnorderedElementsAreArray(Request().pools));
  }
}

TEST_P(RemoteProviderTest, AQuotaIsNoStockOut) {
  ASSERT_TRUE(provider_->Rent(Request("first")).end.ok());
  cloud_->Order(R"({"machines_max": 1})");
  for (const bool is_whole_call : {false, true}) {
    cloud_->Order(is_whole_call ? R"({"whole_call": true})" : R"({"whole_call": false})");
    for (const bool is_spot : {true, false}) {
      RentRequest request = Request(is_spot ? "second" : "third");
      for (Pool& pool : request.pools) {
        pool.is_spot = is_spot;
      }
      request.token += is_whole_call ? "-whole" : "";
      const RentReply rent = provider_->Rent(request);
      EXPECT_EQ(rent.end.fault, CallFault::kQuota) << rent.end.message;
      EXPECT_FALSE(rent.pool_faults.empty());
    }
  }
}

TEST_P(RemoteProviderTest, StableMachinesAreRentedAsSuch) {
  RentRequest request = Request();
  for (Pool& pool : request.pools) {
    pool.is_spot = false;
  }
  const RentReply rent = provider_->Rent(request);
  ASSERT_TRUE(rent.end.ok()) << rent.end.message;
  EXPECT_EQ(rent.machine->pool, request.pools[0]) << "the first one in front";
  EXPECT_EQ(Listed().front().pool, request.pools[0]);
}

TEST_P(RemoteProviderTest, AnAnswerThatIsLostIsFoundByTheToken) {
  for (const char* const kind : {"lost", "cut", "garbage", "huge"}) {
    const size_t before = Rented().size();
    SetFault("rent", kind);
    const RentReply lost = provider_->Rent(Request(std::string("worker-") + kind));
    EXPECT_EQ(lost.end.fault, CallFault::kUnclear) << kind << ": " << lost.end.message;
    EXPECT_FALSE(lost.machine.has_value());
    EXPECT_EQ(Rented().size(), before + 1) << "it was made";
    const RentReply found = provider_->Rent(Request(std::string("worker-") + kind));
    ASSERT_TRUE(found.end.ok()) << kind << ": " << found.end.message;
    EXPECT_EQ(found.machine->id, Rented().back());
    EXPECT_EQ(Rented().size(), before + 1) << "and no second one";
  }
}

TEST_P(RemoteProviderTest, AConnectionThatEndsInSilenceMakesNoSecondMachine) {
  // On a connection that was used before, the HTTP client makes the request again by itself.
  ASSERT_TRUE(provider_->List({}).end.ok());
  SetFault("rent", "dropped");
  RentReply rent = provider_->Rent(Request());
  if (rent.end.fault == CallFault::kUnclear) {
    rent = provider_->Rent(Request());
  }
  ASSERT_TRUE(rent.end.ok()) << rent.end.message;
  EXPECT_EQ(Rented().size(), 1U);
}

TEST_P(RemoteProviderTest, AnotherProcessFindsWhatAnAnswerThatIsLostRented) {
  SetFault("rent", "lost");
  EXPECT_EQ(provider_->Rent(Request()).end.fault, CallFault::kUnclear);
  provider_ = cloud_->Open(Keys::kRight);
  const RentReply found = provider_->Rent(Request());
  ASSERT_TRUE(found.end.ok()) << found.end.message;
  EXPECT_EQ(Rented().size(), 1U);
}

TEST_P(RemoteProviderTest, TroubleOfTheServiceIsUnclear) {
  SetFault("rent", "internal");
  const RentReply rent = provider_->Rent(Request());
  EXPECT_EQ(rent.end.fault, CallFault::kUnclear) << rent.end.message;
  EXPECT_TRUE(provider_->Rent(Request()).end.ok());
  for (const char* const kind : {"internal", "garbage", "cut", "huge"}) {
    SetFault("list", kind, ", \"times\": 2");
    const ListReply list = provider_->List({});
    EXPECT_EQ(list.end.fault, CallFault::kUnclear) << kind << ": " << list.end.message;
    EXPECT_THAT(list.machines, testing::IsEmpty()) << "half a list is none";
    cloud_->Order(R"({"faults": []})");
    provider_->List({});  // what is left of the fault
  }
}

TEST_P(RemoteProviderTest, AConnectionThatBreaksWhileItListsIsMadeOnceMore) {
  ASSERT_TRUE(provider_->Rent(Request()).end.ok());
  SetFault("list", "lost");
  EXPECT_EQ(Listed().size(), 1U);
}

TEST_P(RemoteProviderTest, TooManyCallsAreSaidWithTheTimeToWait) {
  SetFault("rent", "throttled", ", \"wait_s\": 7");
  const RentReply rent = provider_->Rent(Request());
  EXPECT_EQ(rent.end.fault, CallFault::kThrottled) << rent.end.message;
  EXPECT_EQ(rent.end.wait, std::chrono::seconds(7));
  SetFault("list", "throttled");
  EXPECT_EQ(provider_->List({}).end.fault, CallFault::kThrottled);
  const RentReply again = provider_->Rent(Request());
  EXPECT_TRUE(again.end.ok()) << again.end.message;
  SetFault("release", "throttled");
  EXPECT_EQ(provider_->Release({again.machine->id}).fault, CallFault::kThrottled);
  EXPECT_EQ(Living().size(), 1U);
}

TEST_P(RemoteProviderTest, APermissionThatIsMissingIsNamed) {
  SetFault("rent", "denied");
  const RentReply rent = provider_->Rent(Request());
  EXPECT_EQ(rent.end.fault, CallFault::kDenied);
  EXPECT_THAT(
      rent.end.message,
      testing::AnyOf(testing::HasSubstr("ec2:RunInstances"), testing::HasSubstr("compute.")));
}

TEST_P(RemoteProviderTest, AMachineMayBeSeenLate) {
  cloud_->Order(R"({"visible_s": 30})");
  const RentReply rent = provider_->Rent(Request());
  ASSERT_TRUE(rent.end.ok()) << rent.end.message;
  EXPECT_THAT(Listed(), testing::IsEmpty());
  EXPECT_TRUE(provider_->Release({rent.machine->id}).ok()) << "it is as one that nobody knows";
  const RentReply again = provider_->Rent(Request());
  ASSERT_TRUE(again.end.ok()) << again.end.message;
  EXPECT_EQ(again.machine->id, rent.machine->id);
  cloud_->Order(R"({"advance_s": 31})");
  EXPECT_EQ(Listed().size(), 1U) << "and stays";
  EXPECT_TRUE(provider_->Release({rent.machine->id}).ok());
  EXPECT_THAT(Living(), testing::IsEmpty());
}

TEST_P(RemoteProviderTest, AMachineStartsAndEndsInItsTime) {
  cloud_->Order(R"({"boot_s": 40, "end_s": 20})");
  const RentReply rent = provider_->Rent(Request());
  ASSERT_TRUE(rent.end.ok()) << rent.end.message;
  EXPECT_EQ(Listed().front().state, MachineState::kStarting);
  cloud_->Order(R"({"advance_s": 41})");
  EXPECT_EQ(Listed().front().state, MachineState::kRunning);
  EXPECT_EQ(Listed().front().ended_us, 0);
  ASSERT_TRUE(provider_->Release({rent.machine->id}).ok());
  const Machine ending = Listed().front();
  EXPECT_EQ(ending.state, MachineState::kEnding);
  EXPECT_FALSE(ending.is_revoked);
  EXPECT_NEAR(static_cast<double>(ending.ended_us - ending.started_us), 41e6, 5e6)
      << "what it cost, by the service's clock";
  cloud_->Order(R"({"advance_s": 21})");
  EXPECT_THAT(Living(), testing::IsEmpty());
}

TEST_P(RemoteProviderTest, ARevocationIsToldApartFromARelease) {
  cloud_->Order(R"({"end_s": 100})");
  const RentReply rent = provider_->Rent(Request());
  ASSERT_TRUE(rent.end.ok()) << rent.end.message;
  EXPECT_FALSE(Listed().front().is_revoked);
  cloud_->Order("{\"revoke\": \"" + rent.machine->id + "\"}");
  const Machine machine = Listed().front();
  EXPECT_TRUE(machine.is_revoked);
  EXPECT_EQ(machine.state, MachineState::kEnding);
  EXPECT_EQ(
      machine.free_within,
      provider_->name() == "ec2" ? Duration(std::chrono::hours(1)) : Duration());
}

TEST_P(ProviderTest, OnlyMachinesWithAllTagsAreListed) {
  RentRequest other = Request("run-worker-2");
  other.tags["run"] = "r2";
  ASSERT_TRUE(provider_->Rent(Request()).end.ok());
  const RentReply second = provider_->Rent(other);
  ASSERT_TRUE(second.end.ok()) << second.end.message;
  EXPECT_EQ(Listed({{"run", "r1"}}).size(), 1U);
  EXPECT_EQ(Listed({{"run", "r2"}}).front().id, second.machine->id);
  EXPECT_EQ(Listed({{"run", "r3"}}).size(), 0U);
  EXPECT_EQ(Listed({{"run", "r2"}, {"seat", "worker-1"}}).size(), 1U);
  EXPECT_EQ(Listed({{"run", "r2"}, {"seat", "worker-2"}}).size(), 0U);
  EXPECT_EQ(Listed({}).size(), 2U);
}

TEST_P(RemoteProviderTest, AListOfManyPagesIsWhole) {
  cloud_->Order(R"({"page": 3})");
  std::set<std::string> ids;
  for (int i = 0; i < 10; ++i) {
    const RentReply rent = provider_->Rent(Request("worker-" + std::to_string(i)));
    ASSERT_TRUE(rent.end.ok()) << rent.end.message;
    ids.insert(rent.machine->id);
  }
  EXPECT_EQ(ids.size(), 10U);
  std::set<std::string> listed;
  for (const Machine& machine : Listed()) {
    EXPECT_TRUE(listed.insert(machine.id).second) << "listed twice";
  }
  EXPECT_EQ(listed, ids);
  SetFault("list", "throttled", ", \"after\": 2");
  const ListReply half = provider_->List({});
  EXPECT_EQ(half.end.fault, CallFault::kThrottled);
  EXPECT_THAT(half.machines, testing::IsEmpty()) << "half a list would be read as lost machines";
}

TEST_P(ProviderTest, ReleasingTwiceOrWhatNobodyKnowsIsNoError) {
  const RentReply one = provider_->Rent(Request("one"));
  const RentReply two = provider_->Rent(Request("two"));
  ASSERT_TRUE(one.end.ok() && two.end.ok());
  // As another process would: what this one rented a moment ago it knows to be there.
  CallEnd end = provider_->Release({one.machine->id});
  EXPECT_TRUE(end.ok()) << end.message;
  end = provider_->Release({one.machine->id});
  EXPECT_TRUE(end.ok()) << end.message;
  end = provider_->Release(
      {"i-0123456789abcdef0", one.machine->id, "i-00000000000000001", two.machine->id, "x y"});
  EXPECT_TRUE(end.ok()) << end.message;
  EXPECT_THAT(Living(), testing::IsEmpty()) << "those that are known have ended";
  EXPECT_TRUE(provider_->Release({}).ok());
}

TEST_P(RemoteProviderTest, KeysThatHaveExpiredAreLookedForOnce) {
  provider_ = cloud_->Open(Keys::kExpireOnce);
  ASSERT_TRUE(provider_->Rent(Request("one")).end.ok());
  cloud_->Order(R"({"expire_keys": true})");
  const RentReply rent = provider_->Rent(Request("two"));
  EXPECT_TRUE(rent.end.ok()) << rent.end.message;
  provider_ = cloud_->Open(Keys::kRight);  // whose keys stay what they are
  const RentReply refused = provider_->Rent(Request("three"));
  EXPECT_EQ(refused.end.fault, CallFault::kCredentials) << refused.end.message;
}

TEST_P(RemoteProviderTest, KeysThatAreWrongAreCalledThatAndNotShown) {
  for (const Keys keys : {Keys::kUnknown, Keys::kWrongSecret}) {
    provider_ = cloud_->Open(keys);
    const RentReply rent = provider_->Rent(Request());
    EXPECT_EQ(rent.end.fault, CallFault::kCredentials) << rent.end.message;
    EXPECT_THAT(rent.end.message, testing::Not(testing::HasSubstr("hidden-words")));
    EXPECT_EQ(provider_->List({}).end.fault, CallFault::kCredentials);
    EXPECT_EQ(provider_->Release({"i-0123456789abcdef0"}).fault, CallFault::kCredentials)
        << "who may not ask does not know that there is no machine";
    const std::vector<CheckLine> lines = provider_->Check(Request());
    ASSERT_EQ(lines.size(), 1U);
    EXPECT_EQ(lines.front().end.fault, CallFault::kCredentials);
  }
}

TEST_P(RemoteProviderTest, AClockThatIsOffIsCalledThat) {
  cloud_->Order(R"({"skew_s": 1000})");
  const RentReply rent = provider_->Rent(Request());
  EXPECT_EQ(rent.end.fault, CallFault::kCredentials);
  EXPECT_THAT(
      rent.end.message,
      testing::ContainsRegex("clock of this machine is (999|1000|1001) s behind"));
}

TEST_P(PricedProviderTest, PricesAreThoseOfNowAndSince) {
  const std::vector<Pool> pools = Request().pools;
  const std::string at = "{\"prices\": {\"" + PoolName(0) + "\": ";
  cloud_->Order(at + "0.25}}");
  cloud_->Order(R"({"advance_s": 3600})");
  cloud_->Order(at + "0.5}}");
  const PriceReply now = provider_->Prices(pools, 1'000'000LL * 4'000'000'000);
  ASSERT_TRUE(now.end.ok()) << now.end.message;
  std::map<Pool, double> newest;
  for (const PoolPrice& price : now.prices) {
    newest[price.pool] = price.usd_per_hour;
  }
  EXPECT_EQ(newest[pools[0]], 0.5);
  EXPECT_GT(newest[pools[1]], 0);
  EXPECT_EQ(now.prices.size(), 2U) << "one of each pool";
  const PriceReply since = provider_->Prices({pools[0]}, 0);
  ASSERT_EQ(since.prices.size(), 3U) << "with that of before";
  EXPECT_EQ(since.prices[1].usd_per_hour, 0.25);
  EXPECT_EQ(since.prices[2].usd_per_hour, 0.5);
  EXPECT_LT(since.prices[1].since_us, since.prices[2].since_us);
}

/// A price that moves counts from the machine's next hour on.
TEST_P(PricedProviderTest, WhatAMachineCostsByItsPricesIsWhatTheBookSays) {
  const auto set_price = [](const char* usd) {
    cloud_->Order("{\"prices\": {\"" + PoolName(0) + "\": " + usd + "}}");
  };
  set_price("0.36");
  const RentReply rent = provider_->Rent(Request());
  ASSERT_TRUE(rent.end.ok()) << rent.end.message;
  cloud_->Order(R"({"advance_s": 1000})");
  set_price("72");
  cloud_->Order(R"({"advance_s": 3600})");
  set_price("0.5");
  ASSERT_TRUE(provider_->Release({rent.machine->id}).ok());
  const Machine machine = Listed().front();
  PriceHistory history;
  for (const PoolPrice& price : provider_->Prices({machine.pool}, machine.started_us).prices) {
    history.Add(price);
  }
  const double usd = std::stod(cloud_->Book().Find("usd")->text);
  EXPECT_NEAR(usd, 0.36 + 72.0 * 1000 / 3600, 0.1) << "an hour at 0.36 and 1000 s at 72";
  EXPECT_NEAR(history.Cost(machine.pool, machine.started_us, machine.ended_us), usd, 0.005);
}

TEST_P(ProviderTest, WhatCanBeRentedPassesTheCheck) {
  const std::vector<CheckLine> lines = provider_->Check(Request());
  EXPECT_FALSE(lines.empty());
  for (const CheckLine& line : lines) {
    EXPECT_TRUE(line.end.ok()) << line.what << ": " << line.end.message;
  }
  RentRequest wrong = Request();
  wrong.pools[1].type = "no.such";
  const std::vector<CheckLine> found = provider_->Check(wrong);
  EXPECT_TRUE(std::any_of(found.begin(), found.end(), [](const CheckLine& line) {
    return line.end.fault == CallFault::kRefused &&
           line.end.message.find("no.such") != std::string::npos;
  }));
  for (const CheckLine& line : found) {
    if (!line.end.ok()) {
      EXPECT_THAT(line.pools, testing::ElementsAre(wrong.pools[1])) << line.what;
    }
  }
  if (cloud_->is_remote()) {
    EXPECT_THAT(Rented(), testing::IsEmpty()) << "nothing is rented for it";
  }
}

TEST_P(RemoteProviderTest, WhatIsLeftBehindIsTidiedAway) {
  const RentReply rent = provider_->Rent(Request());
  ASSERT_TRUE(rent.end.ok()) << rent.end.message;
  ASSERT_TRUE(provider_->Release({rent.machine->id}).ok());
  const CallEnd other = provider_->Tidy({{"run", "r9"}});
  EXPECT_TRUE(other.ok()) << other.message;
  const CallEnd end = provider_->Tidy({{"run", "r1"}});
  EXPECT_TRUE(end.ok()) << end.message;
  EXPECT_THAT(cloud_->Book().Find("left_behind")->children, testing::IsEmpty());
  const RentReply again = provider_->Rent(Request("two"));
  EXPECT_TRUE(again.end.ok()) << "it is made anew: " << again.end.message;
}

}  // namespace ps::provisioner
