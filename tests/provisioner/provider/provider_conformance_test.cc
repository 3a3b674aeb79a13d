// The suite of Provider, for each of them.

#include "tests/provisioner/provider/provider_conformance.h"

#include "tests/provisioner/provider/ec2_cloud.h"
#include "tests/provisioner/provider/gce_cloud.h"
#include "tests/provisioner/provider/static_provider.h"

namespace ps::provisioner {
namespace {

class StaticCloud final : public Cloud {
 public:
  bool is_remote() const override { return false; }

  std::unique_ptr<Provider> Open(Keys /*keys*/) override {
    const std::vector<Pool> pools = Request("x").pools;
    return MakeStaticProvider(
        {{.address = "10.0.0.1", .pool = pools[0]}, {.address = "10.0.0.2", .pool = pools[1]}});
  }

  RentRequest Request(const std::string& token) const override {
    RentRequest request;
    request.token = token;
    request.pools = {{.type = "box", .zone = "rack-1"}, {.type = "box", .zone = "rack-2"}};
    request.tags = {{"run", "r1"}, {"seat", "worker-1"}};
    return request;
  }
};

template <typename Kind>
std::unique_ptr<Cloud> Make() {
  return std::make_unique<Kind>();
}

INSTANTIATE_TEST_SUITE_P(Static, ProviderTest, testing::Values(&Make<StaticCloud>));
INSTANTIATE_TEST_SUITE_P(Ec2, ProviderTest, testing::Values(&Make<Ec2Cloud>));
INSTANTIATE_TEST_SUITE_P(Ec2, RemoteProviderTest, testing::Values(&Make<Ec2Cloud>));
INSTANTIATE_TEST_SUITE_P(Ec2, PricedProviderTest, testing::Values(&Make<Ec2Cloud>));
INSTANTIATE_TEST_SUITE_P(Gce, ProviderTest, testing::Values(&Make<GceCloud>));
INSTANTIATE_TEST_SUITE_P(Gce, RemoteProviderTest, testing::Values(&Make<GceCloud>));

}  // namespace
}  // namespace ps::provisioner
