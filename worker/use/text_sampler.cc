#include "worker/use/text_sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "worker/model/causal.h"

namespace ps::worker {

Status CheckCausal(const ModelCard& card, const Model& model) {
  if (card.input.kind != ShapeKind::kTokens || card.data.format != proto::DatasetFormat::kText) {
    return Status::InvalidArgument("the model has not learnt a text; psctl apply uses it");
  }
  if (card.data.mask > 0) {
    return Status::InvalidArgument(
        "the model has learnt hidden tokens from those on both sides (data.mask); one that goes on "
        "with a text is gpt, or layers whose attention is causal");
  }
  if (!IsCausal(model)) {
    return Status::InvalidArgument(
        "the model's attention is not causal, so it saw each token that it had to learn; train it "
        "with \"causal\": true in each attention");
  }
  return Status::Ok();
}

uint32_t ChooseToken(std::span<const float> outputs, const Sampling& sampling, Random* random) {
  std::vector<uint32_t> order(outputs.size());
  std::iota(order.begin(), order.end(), 0);
  const bool is_greedy = sampling.temperature == 0;
  const size_t kept = is_greedy             ? 1
                      : sampling.top_k == 0 ? order.size()
                                            : std::min<size_t>(sampling.top_k, order.size());
  // Among equal ones the lower number is first, so that no library's order decides.
  std::partial_sort(
      order.begin(),
      order.begin() + static_cast<int64_t>(kept),
      order.end(),
      [&](uint32_t a, uint32_t b) {
        return outputs[a] > outputs[b] || (outputs[a] == outputs[b] && a < b);
      });
  if (is_greedy) {
    return order[0];
  }
  std::vector<double> sums;
  double sum = 0;
  for (size_t i = 0; i < kept; ++i) {
    sum += std::exp((outputs[order[i]] - outputs[order[0]]) / sampling.temperature);
    sums.push_back(sum);
  }
  const auto chosen = std::ranges::upper_bound(sums, random->Unit() * sum) - sums.begin();
  return order[std::min(static_cast<size_t>(chosen), kept - 1)];
}

Status Sample(
    std::string_view prompt,
    const Sampling& sampling,
    TrainedModel* model,
    Tokens* tokens,
    const std::function<bool(std::string_view bytes)>& write) {
  PS_ASSIGN(std::vector<uint32_t> text, tokens->Encode(prompt).Annotate("the prompt"));
  if (text.empty()) {
    return Status::InvalidArgument("the prompt is empty; the model goes on with what is there");
  }
  const auto context = static_cast<size_t>(model->model().input.height);
  const auto classes = static_cast<size_t>(model->model().classes);
  std::vector<float> window(context);
  Random random(sampling.seed);
  size_t begin = text.size() > context ? text.size() - context : 0;
  for (uint32_t i = 0; i < sampling.tokens; ++i) {
    if (text.size() - begin > context) {
      begin = text.size() - std::max<size_t>(context / 2, 1);
    }
    const size_t used = text.size() - begin;
    // What stands behind the text is seen by nothing that is asked for.
    std::ranges::fill(window, 0.0F);
    std::copy_n(text.begin() + static_cast<int64_t>(begin), used, window.begin());
    PS_ASSIGN(const std::span<const float> all, model->Apply(window));
    const std::span<const float> outputs = all.subspan((used - 1) * classes, classes);
    if (!std::ranges::all_of(outputs, [](float output) { return std::isfinite(output); })) {
      return Status::Corruption("the model gives no finite numbers for this text");
    }
    text.push_back(ChooseToken(outputs, sampling, &random));
    if (!write(tokens->TextOf(text.back()))) {
      break;
    }
  }
  return Status::Ok();
}

}  // namespace ps::worker
