#include "ps/coordinator/state/evaluations.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

namespace ps::coordinator {

void Evaluations::MarkPart(const Evaluation& evaluation, const EvaluationPart& part) {
  const auto place = static_cast<size_t>(&part - evaluation.parts.data());
  touched_->Mark(RowKind::kEvaluationPart, proto::PartNumber(evaluation.epoch, place));
}

void Evaluations::Begin(uint32_t epoch, SampleSpan samples, uint64_t parts) {
  DropUnbegun();
  Add(epoch, samples, parts, false);
}

void Evaluations::BeginLast(uint32_t epoch, SampleSpan samples, uint64_t parts) {
  PS_CHECK(state_->pending.empty()) << "rows of parts are by epoch";
  Add(epoch, samples, parts, true);
}

void Evaluations::Add(uint32_t epoch, SampleSpan samples, uint64_t parts, bool is_last) {
  PS_CHECK(samples.begin < samples.end && parts > 0);
  Evaluation evaluation;
  evaluation.epoch = epoch;
  evaluation.is_last = is_last;
  const uint64_t size = (samples.end - samples.begin + parts - 1) / parts;
  for (uint64_t begin = samples.begin; begin < samples.end; begin += size) {
    EvaluationPart part;
    part.begin = begin;
    part.end = std::min(begin + size, samples.end);
    evaluation.parts.push_back(part);
    MarkPart(evaluation, evaluation.parts.back());
  }
  evaluation.sums.resize(evaluation.parts.size());
  state_->pending.push_back(std::move(evaluation));
}

void Evaluations::DropUnbegun() {
  std::erase_if(state_->pending, [this](const Evaluation& evaluation) {
    const bool is_begun = std::ranges::any_of(
        evaluation.parts, [](const auto& part) { return part.is_done || part.lease != LeaseId(); });
    for (const EvaluationPart& part : evaluation.parts) {
      if (!is_begun) {
        MarkPart(evaluation, part);
      }
    }
    return !is_begun;
  });
}

void Evaluations::GiveUp() {
  for (const Evaluation& evaluation : state_->pending) {
    for (const EvaluationPart& part : evaluation.parts) {
      MarkPart(evaluation, part);
    }
  }
  state_->pending.clear();
}

void Evaluations::SetLast(
    const std::optional<proto::EvaluationRow>& row, std::vector<proto::Figure> figures) {
  state_->last = row;
  state_->last_figures = std::move(figures);
  touched_->Mark(RowKind::kResult, proto::kLastResult);
}

bool Evaluations::HasWork() const {
  for (const Evaluation& evaluation : state_->pending) {
    for (const EvaluationPart& part : evaluation.parts) {
      if (!part.is_done && part.lease == LeaseId()) {
        return true;
      }
    }
  }
  return false;
}

Evaluations::Granted Evaluations::Grant(Incarnation holder, LeaseId lease) {
  for (Evaluation& evaluation : state_->pending) {
    for (EvaluationPart& part : evaluation.parts) {
      if (!part.is_done && part.lease == LeaseId()) {
        part.lease = lease;
        part.holder = holder;
        MarkPart(evaluation, part);
        return {evaluation.epoch, part.begin, part.end};
      }
    }
  }
  PS_CHECK(false) << "no part is queued";
  return {};
}

const EvaluationPart* Evaluations::Find(LeaseId lease) const {
  for (const Evaluation& evaluation : state_->pending) {
    for (const EvaluationPart& part : evaluation.parts) {
      if (!part.is_done && lease != LeaseId() && part.lease == lease) {
        return &part;
      }
    }
  }
  return nullptr;
}

void Evaluations::Report(const proto::EvaluateReport& report, Duration since_begin) {
  for (size_t i = 0; i < state_->pending.size(); ++i) {
    std::vector<EvaluationPart>& parts = state_->pending[i].parts;
    std::vector<proto::MetricSums>& sums = state_->pending[i].sums;
    sums.resize(parts.size());  // that of an older program has none
    for (EvaluationPart& part : parts) {
      if (part.is_done || part.lease != report.lease) {
        continue;
      }
      part.is_done = true;
      part.loss_sum = report.loss_sum;
      part.correct = report.correct;
      sums[static_cast<size_t>(&part - parts.data())] = report.sums;
      MarkPart(state_->pending[i], part);
      if (std::all_of(parts.begin(), parts.end(), [](const auto& p) { return p.is_done; })) {
        Complete(i, since_begin);
      }
      return;
    }
  }
  PS_CHECK(false) << "lease " << report.lease << " is not out";
}

void Evaluations::Complete(size_t index, Duration since_begin) {
  proto::EvaluationRow row;
  row.epoch = state_->pending[index].epoch;
  const std::vector<EvaluationPart>& parts = state_->pending[index].parts;
  EvaluationSums sums;
  for (size_t i = 0; i < parts.size(); ++i) {
    MarkPart(state_->pending[index], parts[i]);
    row.samples += parts[i].end - parts[i].begin;
    sums.Add(parts[i].loss_sum, parts[i].correct, state_->pending[index].sums[i]);
  }
  row.accuracy = kind_.MetricValue(sums, row.samples);
  row.loss = sums.loss_sum / static_cast<double>(row.samples);
  row.at_s = Seconds(since_begin);
  const bool is_last = state_->pending[index].is_last;
  state_->pending.erase(state_->pending.begin() + static_cast<std::ptrdiff_t>(index));
  std::vector<proto::Figure> told = kind_.Figures(sums, row.samples);
  if (is_last) {
    SetLast(row, std::move(told));
    return;
  }
  touched_->Mark(RowKind::kResult, row.epoch);
  const auto after =
      std::find_if(state_->results.begin(), state_->results.end(), [&](const auto& r) {
        return r.epoch > row.epoch;
      });
  state_->results.insert(after, row);
  if (!told.empty()) {
    const auto behind = std::ranges::find_if(
        state_->figures, [&](const auto& figures) { return figures.epoch > row.epoch; });
    state_->figures.insert(behind, {row.epoch, std::move(told)});
  }
}

std::vector<proto::Figure> Evaluations::FiguresOf(uint32_t epoch) const {
  const auto it = std::ranges::find(state_->figures, epoch, &proto::ResultFigures::epoch);
  return it == state_->figures.end() ? std::vector<proto::Figure>() : it->figures;
}

std::vector<proto::Figure> Evaluations::NewestFigures() const {
  return state_->last              ? state_->last_figures
         : state_->results.empty() ? std::vector<proto::Figure>()
                                   : FiguresOf(state_->results.back().epoch);
}

void Evaluations::Return(Incarnation holder) {
  for (Evaluation& evaluation : state_->pending) {
    for (EvaluationPart& part : evaluation.parts) {
      if (!part.is_done && part.holder == holder) {
        part.lease = LeaseId();
        part.holder = Incarnation();
        MarkPart(evaluation, part);
      }
    }
  }
}

Status CheckEvaluationsState(
    const EvaluationsState& state,
    uint64_t tests,
    uint64_t samples,
    uint32_t epochs,
    LeaseId last_lease) {
  std::set<LeaseId> leases;
  for (const Evaluation& evaluation : state.pending) {
    const bool is_of_tests = !evaluation.parts.empty() && evaluation.parts[0].begin < tests;
    const uint64_t end = is_of_tests ? tests : samples;
    uint64_t covered = is_of_tests ? 0 : tests;
    size_t done = 0;
    bool is_sane = evaluation.epoch <= epochs && (!evaluation.is_last || state.pending.size() == 1);
    for (const EvaluationPart& part : evaluation.parts) {
      const bool is_out = part.lease != LeaseId();
      is_sane = is_sane && part.begin == covered && part.end > part.begin &&
                part.lease <= last_lease && (!is_out || leases.insert(part.lease).second);
      covered = part.end;
      done += part.is_done ? 1 : 0;
    }
    if (!is_sane || covered != end || done == evaluation.parts.size()) {
      return Status::Corruption(
          fmt::format("the evaluation after epoch {} makes no sense", evaluation.epoch));
    }
  }
  return Status::Ok();
}

}  // namespace ps::coordinator
