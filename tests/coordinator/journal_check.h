#pragma once

#include "ps/base/status.h"
#include "ps/coordinator/coordinator_core.h"
#include "ps/coordinator/job_journal.h"

namespace ps::coordinator {

/// Whether the rows in the journal make the core's state. Left out are the times, which may be a
/// little behind, and what workers say of themselves again and again. Errors: kCorruption naming a
/// row that is not as the state has it.
Status CheckJournal(JobJournal* journal, const CoordinatorCore& core, TimePoint now);

}  // namespace ps::coordinator
