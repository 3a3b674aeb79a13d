#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "provisioner/claims/parcae_policies.h"
#include "provisioner/claims/published_figures.h"
#include "ps/base/status.h"

namespace ps::provisioner {

/// A model of Parcae under policies on a trace. Each policy is run once, when it is asked for.
class ParcaeRuns {
 public:
  /// `draws`: of the machines that may go, for each event.
  ParcaeRuns(ParcaeCase some, int draws);

  ParcaeRuns(const ParcaeRuns&) = delete;
  ParcaeRuns& operator=(const ParcaeRuns&) = delete;

  const ParcaeCase& some() const { return some_; }

  const std::vector<double>& ideal() const { return ideal_; }

  /// Requires: a name of ParcaePolicies().
  const ParcaeOutcome& Under(const std::string& policy);

  /// Samples of `policy` over those of `other`.
  double Ratio(const std::string& policy, const std::string& other);
  /// Percent of the ideal's samples that the policy does not make.
  double BelowIdeal(const std::string& policy);

 private:
  const ParcaeCase some_;
  const std::vector<double> ideal_;
  ParcaeCosts costs_;
  std::map<std::string, ParcaeOutcome> outcomes_;
};

/// All models on Parcae's own trace, or on the counts of another one.
class ParcaeStudy {
 public:
  static constexpr int kDraws = 100;

  explicit ParcaeStudy(PublishedFigures figures) : figures_(std::move(figures)) {}

  /// `minutes`: counts of machines at the begin of each minute.
  ParcaeStudy(PublishedFigures figures, std::vector<uint32_t> minutes)
      : figures_(std::move(figures)), counts_(std::move(minutes)) {}

  /// Errors: those of LoadParcaeCase.
  Result<ParcaeRuns*> Of(const std::string& model);

  const PublishedFigures& figures() const { return figures_; }

 private:
  PublishedFigures figures_;
  std::vector<uint32_t> counts_;
  std::map<std::string, std::unique_ptr<ParcaeRuns>> runs_;
};

}  // namespace ps::provisioner
