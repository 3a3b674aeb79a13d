#pragma once

#include <gtest/gtest.h>

#include <string>

#include "provisioner/claims/parcae_data.h"
#include "provisioner/claims/published_figures.h"

namespace ps::provisioner {

/// The figures of the sources. Tests run in their root.
inline PublishedFigures ShippedFigures() {
  return PublishedFigures("tests/data");
}

/// A model of Parcae on its own trace; a failure fails the test.
inline ParcaeCase ParcaeCaseOf(const std::string& name) {
  const Result<ParcaeCase> some = LoadParcaeCase(ShippedFigures(), name);
  EXPECT_TRUE(some.ok()) << some.status();
  return some.ok() ? *some : ParcaeCase();
}

}  // namespace ps::provisioner
