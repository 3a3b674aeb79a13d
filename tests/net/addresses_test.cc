#include "ps/net/addresses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ps/base/host_port.h"

namespace ps::net {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(AddressesTest, LoopbackIsReachedByLoopback) {
  EXPECT_EQ(AddressTowards("127.0.0.1").value(), "127.0.0.1");
}

TEST(AddressesTest, AHostThatIsNotThereIsNamedWithWhatToDo) {
  const Status status = AddressTowards("no..name").status();
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("no..name"), HasSubstr("--listen")));
}

TEST(AddressesTest, TheOwnAddressIsOneThatOthersMayReach) {
  const std::string address = OwnAddress(false, "none");
  EXPECT_FALSE(IsLoopback(address)) << address;
  EXPECT_FALSE(BindsAll(address)) << address;
  if (address != "none") {
    EXPECT_EQ(AddressTowards(address).value(), address) << "it is of this machine";
  }
}

TEST(AddressesTest, WhoCannotReachLoopbackIsToldWhyThatMayBe) {
  const Status why = Status::Unavailable("Connection refused");
  EXPECT_THAT(
      UnreachableText("the coordinator", "127.0.0.1", 80, why),
      AllOf(
          HasSubstr("cannot reach the coordinator at 127.0.0.1:80: Connection refused; trying on"),
          HasSubstr("run.listen")));
  EXPECT_THAT(
      UnreachableText("shard 2", "10.0.0.1", 80, why),
      AllOf(HasSubstr("shard 2 at 10.0.0.1:80"), Not(HasSubstr("run.listen"))));
}

}  // namespace
}  // namespace ps::net
