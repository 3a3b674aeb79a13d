#include "tests/coordinator/journal_check.h"

#include <set>
#include <utility>

namespace ps::coordinator {

Status CheckJournal(JobJournal* journal, const CoordinatorCore& core, TimePoint now) {
  PS_ASSIGN(std::optional<RecoveredJob> recovered, journal->Recover());
  if (!recovered) {
    return Status::Corruption("the journal has no rows");
  }
  proto::JobState& journaled = recovered->state;
  const proto::JobState state = core.StateAt(now);
  journaled.age = state.age;
  journaled.clock = state.clock;
  journaled.trained = state.trained;
  journaled.is_trained = state.is_trained;
  for (auto& [incarnation, member] : journaled.membership.members) {
    const auto it = state.membership.members.find(incarnation);
    member.stats = it == state.membership.members.end() ? member.stats : it->second.stats;
  }
  if (proto::EncodeJobState(journaled) == proto::EncodeJobState(state)) {
    return Status::Ok();
  }
  std::set<proto::RowId> rows;
  for (const auto& ids : {proto::ListRows(journaled), proto::ListRows(state)}) {
    rows.insert(ids.begin(), ids.end());
  }
  for (const proto::RowId id : rows) {
    if (proto::EncodeRow(journaled, id) != proto::EncodeRow(state, id)) {
      return Status::Corruption("row " + proto::RowKey(id) + " is not as the state has it");
    }
  }
  return Status::Corruption("what is counted is not what the rows leave over");
}

}  // namespace ps::coordinator
