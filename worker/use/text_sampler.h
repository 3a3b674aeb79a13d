#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "ps/base/random.h"
#include "ps/base/status.h"
#include "worker/use/tokens.h"
#include "worker/use/trained_model.h"

namespace ps::worker {

/// How a next token is chosen among those that a model finds likely.
struct Sampling {
  uint32_t tokens = 200;
  double temperature = 1;  // divides the outputs; 0: always the likeliest
  uint32_t top_k = 0;      // among so many of the likeliest; 0: among all
  uint64_t seed = 1;       // same model, prompt, device and seed: same text
};

/// Whether each token sees only those before it, and learns the one behind it: what Sample needs.
/// Errors: kInvalidArgument that says why not.
Status CheckCausal(const ModelCard& card, const Model& model);

/// Goes on with a text, token by token; `write` gets the bytes of each, as soon as it is there.
/// Beyond the model's context the oldest half is forgotten at a time. `write` returns whether to go
/// on. Errors: kInvalidArgument (an empty prompt, or with bytes that the model does not know);
/// kCorruption, the model gives no numbers; as Network::Evaluate.
Status Sample(
    std::string_view prompt,
    const Sampling& sampling,
    TrainedModel* model,
    Tokens* tokens,
    const std::function<bool(std::string_view bytes)>& write);

/// The token that `sampling` chooses by these outputs.
uint32_t ChooseToken(std::span<const float> outputs, const Sampling& sampling, Random* random);

}  // namespace ps::worker
