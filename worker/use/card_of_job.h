#pragma once

#include <cstdint>

#include "ps/base/status.h"
#include "ps/proto/job/job_config.h"
#include "worker/data/load_progress.h"
#include "worker/data/samples.h"
#include "worker/use/model_card.h"

namespace ps::worker {

/// What a job's model file will say of itself. Reads of the data what that takes: of pictures all
/// bytes of training (mean and deviation), of tables the rows (names of classes) and the header, of
/// a tokenizer its files, of numbers that are learnt all (means); of texts and arrays nothing more
/// when `known` has what Dataset::Inspect has found. `progress`, if any, can end it. Errors: as
/// Dataset::Load and MakeModel; kUnsupported, a program of the job computes (worker.program).
Result<ModelCard> CardOfJob(
    const proto::JobConfig& config,
    LoadProgress* progress = nullptr,
    const DatasetInfo* known = nullptr);

/// How much of the data CardOfJob has in memory at once: the bytes of pictures. `info`: of the job.
uint64_t BytesForCard(const proto::DataConfig& config, const DatasetInfo& info);

}  // namespace ps::worker
