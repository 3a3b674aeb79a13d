#include "worker/data/npy/npy_checks.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "worker/data/samples.h"

namespace ps::worker {
namespace {

Status CheckBelow(
    const NpyFile& file,
    const ElementRange& range,
    int64_t limit,
    const char* what,
    const char* remedy) {
  for (uint64_t i = range.begin; i < range.end; ++i) {
    const int64_t value = file.WholeAt(i);
    if (value < 0 || value >= limit) {
      return file.BadElement(
          i,
          fmt::format(
              "{} {} is out of range; allowed is 0 to {}{}", what, value, limit - 1, remedy));
    }
  }
  return Status::Ok();
}

Status CheckTargets(const NpyFile& file, const ElementRange& range, proto::Task task) {
  for (uint64_t i = range.begin; i < range.end; ++i) {
    if (const std::string wrong = WrongTarget(task, file.NumberAt(i)); !wrong.empty()) {
      return file.BadElement(
          i,
          fmt::format("label {} of sample {} {}", i % file.row_size(), i / file.row_size(), wrong));
    }
  }
  return Status::Ok();
}

Status CheckFinite(const NpyFile& file, const ElementRange& range) {
  for (uint64_t i = range.begin; i < range.end; ++i) {
    if (!std::isfinite(file.FloatAt(i))) {
      return file.BadElement(
          i,
          fmt::format(
              "value {} of sample {} is {}; every value has to be a finite number",
              i % file.row_size(),
              i / file.row_size(),
              file.FloatAt(i)));
    }
  }
  return Status::Ok();
}

/// Goes over a file block by block.
template <typename Check>
Status GoOver(const NpyFile& file, const Check& check, LoadProgress* progress) {
  constexpr uint64_t kBlock = uint64_t{1} << 18;  // elements
  const uint64_t count = AllOf(file).end;
  const uint64_t size = file.data().size() / count;
  for (uint64_t begin = 0; begin < count; begin += kBlock) {
    const ElementRange range{begin, std::min(begin + kBlock, count)};
    PS_TRY(check(range));
    PS_TRY(progress->Advance((range.end - range.begin) * size));
  }
  return Status::Ok();
}

}  // namespace

Status NpyRules::CheckInputs(const NpyFile& file, const ElementRange& range) const {
  switch (KindOf(file)) {
    case InputKind::kTokens:
      return CheckBelow(file, range, vocabulary, "token", ", or a larger data.vocabulary");
    case InputKind::kFloats:
      return CheckFinite(file, range);
    case InputKind::kBytes:
      break;
  }
  return Status::Ok();
}

Status NpyRules::CheckLabels(const NpyFile& file, const ElementRange& range) const {
  return task != proto::Task::kClasses
             ? CheckTargets(file, range, task)
             : CheckBelow(file, range, classes, "label", "; the training labels say so");
}

Status CheckAllInputs(const NpyParts& set, const NpyRules& rules, LoadProgress* progress) {
  for (const NpyPart& part : set.parts) {
    const auto check = [&](const ElementRange& range) {
      return rules.CheckInputs(part.inputs, range);
    };
    PS_TRY(GoOver(part.inputs, check, progress));
  }
  return Status::Ok();
}

Status CheckAllLabels(const NpyParts& set, const NpyRules& rules, LoadProgress* progress) {
  for (const NpyPart& part : set.parts) {
    if (!part.labels) {
      continue;
    }
    const auto check = [&](const ElementRange& range) {
      return rules.CheckLabels(*part.labels, range);
    };
    PS_TRY(GoOver(*part.labels, check, progress));
  }
  return Status::Ok();
}

Result<int64_t> CountClasses(const NpyParts& train, uint32_t vocabulary, int64_t labels) {
  const NpyPart& model = train.parts.front();
  const bool is_tokens = KindOf(model.inputs) == InputKind::kTokens;
  if (is_tokens && vocabulary == 0) {
    return Status::InvalidArgument(
        "data.vocabulary is 0, and data.directory has tokens; allowed: one more than the largest "
        "token");
  }
  if (is_tokens && (!model.labels || labels > 1)) {  // two stored tokens are one to learn
    return int64_t{vocabulary};
  }
  int64_t largest = 0;
  for (const NpyPart& part : train.parts) {
    PS_TRY(CheckBelow(*part.labels, AllOf(*part.labels), kNpyClassesMax, "label", ""));
    for (uint64_t i = 0; i < part.labels->rows(); ++i) {
      largest = std::max(largest, part.labels->WholeAt(i));
    }
  }
  if (largest == 0) {
    return Status::Corruption(fmt::format(
        "{}: byte 0: every label is 0; there are at least two classes", model.labels->path()));
  }
  return largest + 1;
}

}  // namespace ps::worker
