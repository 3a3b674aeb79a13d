#pragma once

#include <map>
#include <string>
#include <vector>

#include "provisioner/provider/provider.h"

namespace ps::provisioner {

/// Answers as the test has written down.
class ScriptedProvider : public Provider {
 public:
  std::string_view name() const override { return "scripted"; }

  RentReply Rent(const RentRequest& /*request*/) override { return rent; }

  ListReply List(const std::map<std::string, std::string>& /*tags*/) override { return list; }

  CallEnd Release(const std::vector<std::string>& /*ids*/) override { return {}; }

  PriceReply Prices(const std::vector<Pool>& /*pools*/, int64_t /*since_us*/) override {
    return prices;
  }

  CallEnd Tidy(const std::map<std::string, std::string>& /*tags*/) override { return {}; }

  std::vector<CheckLine> Check(const RentRequest& /*request*/) override { return lines; }

  RentReply rent;
  ListReply list;
  PriceReply prices;
  std::vector<CheckLine> lines;
};

}  // namespace ps::provisioner
